// What -fsanitize=undefined calls: the run ends with the place and the kind. Each call's data begins with the
// place.

#include "machine.h"

namespace {

struct Place {
  const char* file;
  uint32_t line, column;
};

[[noreturn]] void undefined(const void* data, const char* what) {
  const Place& place = *static_cast<const Place*>(data);
  simt::fail("undefined behaviour: %s at %s:%u:%u", what, place.file, place.line, place.column);
}

}  // namespace

extern "C" {

void __ubsan_handle_type_mismatch_v1(void* data, uintptr_t pointer) {
  undefined(data,
            pointer == 0 ? "use of a null pointer" : "misaligned pointer, or one to too small an object");
}
void __ubsan_handle_pointer_overflow(void* data, uintptr_t, uintptr_t) {
  undefined(data, "pointer overflow");
}
void __ubsan_handle_add_overflow(void* data, uintptr_t, uintptr_t) {
  undefined(data, "signed overflow of +");
}
void __ubsan_handle_sub_overflow(void* data, uintptr_t, uintptr_t) {
  undefined(data, "signed overflow of -");
}
void __ubsan_handle_mul_overflow(void* data, uintptr_t, uintptr_t) {
  undefined(data, "signed overflow of *");
}
void __ubsan_handle_negate_overflow(void* data, uintptr_t) { undefined(data, "signed overflow of negation"); }
void __ubsan_handle_divrem_overflow(void* data, uintptr_t, uintptr_t) {
  undefined(data, "division by zero, or its overflow");
}
void __ubsan_handle_shift_out_of_bounds(void* data, uintptr_t, uintptr_t) {
  undefined(data, "shift out of range");
}
void __ubsan_handle_out_of_bounds(void* data, uintptr_t) {
  undefined(data, "index out of an array's bounds");
}
void __ubsan_handle_load_invalid_value(void* data, uintptr_t) {
  undefined(data, "no value of a bool or enum");
}
void __ubsan_handle_float_cast_overflow(void* data, uintptr_t) {
  undefined(data, "float out of an integer's range");
}
void __ubsan_handle_builtin_unreachable(void* data) { undefined(data, "unreachable code reached"); }
void __ubsan_handle_missing_return(void* data) { undefined(data, "no return"); }
void __ubsan_handle_nonnull_arg(void* data) { undefined(data, "null argument"); }
void __ubsan_handle_vla_bound_not_positive(void* data, uintptr_t) { undefined(data, "array of no size"); }
void __ubsan_handle_invalid_builtin(void* data) { undefined(data, "__builtin_clz or ctz of 0"); }

}  // extern "C"
