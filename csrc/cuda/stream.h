// CUDA's stream and error code without CUDA's headers, so that the plan also builds where there are none.
#pragma once

struct CUstream_st;

namespace gputopk::cuda {

using Stream = CUstream_st*;  // a cudaStream_t
using ErrorCode = int;        // a cudaError_t; 0 is success

}  // namespace gputopk::cuda
