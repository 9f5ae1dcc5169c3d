// Errors of the operators: what was wrong, with the value and the range, as Python's RuntimeError.
#pragma once

#include <sstream>
#include <stdexcept>

namespace gputopk::binding {

// Throws std::runtime_error, which the dispatcher hands to Python, with the parts one after another.
template <class... Parts>
void check(bool holds, const Parts&... parts) {
  if (holds) return;
  std::ostringstream message;
  (message << ... << parts);
  throw std::runtime_error(message.str());
}

}  // namespace gputopk::binding
