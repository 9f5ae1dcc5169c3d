// Whether this is the study build (libgputopk_study.so), which can leave out or replace parts of algorithms,
// for the ablations of their papers.
#pragma once

namespace gputopk::cuda {

#ifdef GPUTOPK_STUDY
inline constexpr bool kStudy = true;
#else
inline constexpr bool kStudy = false;
#endif

}  // namespace gputopk::cuda
