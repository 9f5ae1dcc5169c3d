// The front door of the CUDA side: runs a plan on a stream. Launches only: no allocation, no
// synchronisation, no host read of device data.
#pragma once

#include <cstddef>

#include "cuda/plan/plan.h"
#include "cuda/stream.h"

namespace gputopk::cuda {

size_t workspace_bytes(const Plan& plan);

ErrorCode run(const Plan& plan, const Buffers& buffers, Stream stream);

// Device::cluster_blocks of the current device.
int most_cluster_blocks();

size_t workspace_bytes(const StridedPlan& plan);

ErrorCode run(const StridedPlan& plan, const Buffers& buffers, Stream stream);

size_t workspace_bytes(const RerankPlan& plan);

ErrorCode run(const RerankPlan& plan, const RerankBuffers& buffers, Stream stream);

size_t workspace_bytes(const KeepPlan& plan);

ErrorCode run(const KeepPlan& plan, const KeepBuffers& buffers, Stream stream);

size_t workspace_bytes(const SparsifyPlan& plan);

ErrorCode run(const SparsifyPlan& plan, const SparsifyBuffers& buffers, Stream stream);

size_t workspace_bytes(const VarlenPlan& plan);

ErrorCode run(const VarlenPlan& plan, const VarlenBuffers& buffers, Stream stream);

// Reads `bytes` once, 16-byte aligned, and leaves one number a block in `scratch`, kReadFloorScratchBytes
// at least: the yardstick of the benchmarks.
inline constexpr size_t kReadFloorScratchBytes = 64 * 1024;
ErrorCode read_floor(const void* input, size_t bytes, void* scratch, const Device& device, Stream stream);

}  // namespace gputopk::cuda
