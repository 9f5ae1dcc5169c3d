// Bitonic top-k: sorting networks. For k up to kMaxK.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/mask_problem.h"
#include "core/problem.h"
#include "core/strided_problem.h"
#include "cuda/cost.h"
#include "cuda/gpu.h"
#include "cuda/stream.h"
#include "cuda/windows.h"

namespace gputopk::cuda::bitonic {

inline constexpr int64_t kMaxK = 256;
inline constexpr int64_t kOneThreadMaxK = 8;

// Why it cannot serve the request, or nullptr.
const char* unsupported_reason(const Problem& problem);

// A row in the registers of one thread.
struct OneThread {
  static constexpr Algorithm kAlgorithm = Algorithm::kBitonic;
  static constexpr const char* kName = "bitonic.one_thread";

  int elements;  // that there is room for: 16, 32 or 64

  static bool serves(const Problem& problem, const Device& device);
  static OneThread plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem&) const { return true; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem&) const { return 0; }
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
  ErrorCode run_strided(const StridedProblem& strided, const Buffers& buffers, Stream stream) const;
  // To rows of nothing but winners, or masks.
  ErrorCode run_kept(const Problem& problem, const KeepBuffers& buffers, Stream stream) const;
};

// A row in the registers of one warp, or of a part of it.
struct OneWarp {
  static constexpr Algorithm kAlgorithm = Algorithm::kBitonic;
  static constexpr const char* kName = "bitonic.one_warp";
  static constexpr const char* kStridedName = "bitonic.one_warp_strided";  // has costs of its own

  int lanes;          // that share a row: 8, 16 or 32
  int elements;       // a lane: 8, 16 or 32
  int maxima;         // of a lane, from which the bound comes: 1, 2, 4 or 8; 0: all are listed
  int tile_row_bits;  // of the rows of a tile, where rows do not lie side by side

  // Whether a row fits, and k is small enough for maxima to bound it, or a list has room for the row.
  static bool serves(const Problem& problem, const Device& device);
  static OneWarp plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem&) const { return true; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem&) const { return 0; }
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
  Work strided_work(const StridedProblem& strided, const Device& device) const;
  // Rows that do not lie side by side, by tiles of them.
  ErrorCode run_strided(const StridedProblem& strided, const Buffers& buffers, Stream stream) const;
  // To rows of nothing but winners, or masks.
  ErrorCode run_kept(const Problem& problem, const KeepBuffers& buffers, Stream stream) const;
  // Windows of rows of up to problem.cols elements. To rows.outputs; where those have no indices, dense,
  // problem.k places a row.
  ErrorCode run_windows(const Problem& problem, const WindowRows& rows, const Buffers& buffers,
                        Stream stream) const;
};

// Runs of k in the registers of warps, of several blocks a row: rows of any length.
struct ManyBlocks {
  static constexpr Algorithm kAlgorithm = Algorithm::kBitonic;
  static constexpr const char* kName = "bitonic.many_blocks";

  int blocks_per_row;
  int items;  // of a run, a lane: 1, 4 or 8

  static bool serves(const Problem& problem, const Device&) { return problem.k <= kMaxK; }
  static ManyBlocks plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem&) const { return true; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

}  // namespace gputopk::cuda::bitonic
