// The levels of vector instructions that CMakeLists.txt compiles, and which of them this processor has.
#pragma once

namespace gputopk::cpu {

enum class Level { kBaseline, kAvx2, kAvx512 };

// Asks for the instruction sets that CMakeLists.txt gives each level.
inline Level detect_level() {
#ifdef __x86_64__
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("popcnt");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (avx2) return avx512 ? Level::kAvx512 : Level::kAvx2;
#endif
  return Level::kBaseline;
}

inline const char* level_name(Level level) {
  switch (level) {
    case Level::kAvx512: return "avx512";
    case Level::kAvx2: return "avx2";
    default: return "baseline";
  }
}

}  // namespace gputopk::cpu
