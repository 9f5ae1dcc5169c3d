#include "cuda/rerank/rerank.cuh"

template struct gputopk::cuda::rerank::OfType<gputopk::cuda::rerank::Float16>;
