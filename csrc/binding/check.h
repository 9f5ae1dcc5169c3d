// Errors of the operators: what was wrong, with the value and the range, as Python's RuntimeError.
//
// Messages are put together without iostreams: where a toolchain links the C++ library statically, the
// locales of two copies of it meet in them, and the process ends.
#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

namespace gputopk::binding {

template <class Part>
std::string text_of(const Part& part) {
  if constexpr (std::is_integral_v<Part>) {
    return std::to_string(part);
  } else {
    return part;
  }
}

template <class... Parts>
std::string words_of(const Parts&... parts) {
  std::string message;
  ((message += text_of(parts)), ...);
  return message;
}

// What was asked for cannot be done. Nothing has been launched, so another may be asked.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws a Refusal, which the dispatcher hands to Python, with the parts one after another: strings and
// integers.
template <class... Parts>
void check(bool holds, const Parts&... parts) {
  if (!holds) throw Refusal(words_of(parts...));
}

}  // namespace gputopk::binding
