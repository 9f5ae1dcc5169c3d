// What kernels may read and write. -fsanitize=thread announces each access before it is made: it must be
// aligned, lie within a buffer of the call, the block's shared memory or the thread's stack, and not read
// what nobody has written.

#include <link.h>

#include <cstring>

#include "machine.h"
#include "shared.h"
#include "views.h"

namespace simt {

int64_t most_cols_of_32_bits = 0xFFFFFFFF;
int planted = 0;
bool is_planted(int mutant) { return planted == mutant; }

namespace {

struct GlobalRegion {
  const char* name;
  unsigned char* begin;
  size_t bytes;
  Region kind;
  size_t row_bytes, stride_bytes;
  std::vector<uint8_t> written;  // a byte each; not of inputs
};
std::vector<GlobalRegion> regions;
// Loads and stores that a call may still make: more than a right one does by far.
constexpr int64_t kMostAccesses = int64_t{1} << 24, kMostAccessesPerByte = 1 << 10;
int64_t accesses_left = kMostAccesses;
uintptr_t image_begin, image_end;  // this library: its constants

int find_image(dl_phdr_info* info, size_t, void*) {
  const uintptr_t own = reinterpret_cast<uintptr_t>(&find_image);
  uintptr_t begin = ~uintptr_t{0}, end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    begin = std::min<uintptr_t>(begin, info->dlpi_addr + header.p_vaddr);
    end = std::max<uintptr_t>(end, info->dlpi_addr + header.p_vaddr + header.p_memsz);
  }
  if (own < begin || own >= end) return 0;
  image_begin = begin;
  image_end = end;
  return 1;
}

GlobalRegion* region_of(uintptr_t address) {
  for (GlobalRegion& region : regions) {
    if (address - reinterpret_cast<uintptr_t>(region.begin) < region.bytes) return &region;
  }
  return nullptr;
}

void check_region(GlobalRegion& region, uintptr_t address, size_t bytes, Kind kind) {
  const size_t at = address - reinterpret_cast<uintptr_t>(region.begin);
  if (at + bytes > region.bytes) {
    fail("%s %zu bytes of the %s at %zu, beyond its %zu", verb(kind), bytes, region.name, at, region.bytes);
  }
  if (region.row_bytes != 0 && at % region.stride_bytes + bytes > region.row_bytes) {
    fail("%s %zu bytes of the %s at %zu, behind the end of a row", verb(kind), bytes, region.name, at);
  }
  if (region.kind == Region::kInOut) return;
  if (region.kind == Region::kInput) {
    if (writes(kind)) fail("writes %zu bytes to the %s at %zu", bytes, region.name, at);
    return;
  }
  uint8_t* const written = region.written.data() + at;
  if (writes(kind)) {
    std::memset(written, 1, bytes);
    return;
  }
  for (size_t i = 0; i < bytes; ++i) {
    if (written[i] != 0) continue;
    fail("reads %zu bytes of the %s at %zu of %zu, of which nobody has written number %zu", bytes,
         region.name, at, region.bytes, i);
  }
}

[[noreturn]] void fail_at(uintptr_t address, size_t bytes, Kind kind) {
  size_t dynamic_bytes = 0;
  const ptrdiff_t in_dynamic = from_dynamic(address, dynamic_bytes);
  if (in_dynamic > -4096 && in_dynamic < static_cast<ptrdiff_t>(dynamic_bytes) + 4096) {
    fail("%s %zu bytes at %td of the block's %zu of dynamic shared memory", verb(kind), bytes, in_dynamic,
         dynamic_bytes);
  }
  const GlobalRegion* nearest = nullptr;
  ptrdiff_t distance = 65536;  // from the nearest buffer
  for (const GlobalRegion& region : regions) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(address - reinterpret_cast<uintptr_t>(region.begin));
    const ptrdiff_t away = at < 0 ? -at : at - static_cast<ptrdiff_t>(region.bytes);
    if (away < distance) nearest = &region, distance = away;
  }
  if (nearest != nullptr) {
    fail("%s %zu bytes at %td of the %s, which has %zu", verb(kind), bytes,
         static_cast<ptrdiff_t>(address - reinterpret_cast<uintptr_t>(nearest->begin)), nearest->name,
         nearest->bytes);
  }
  fail("%s %zu bytes at %p, which is no memory of this launch", verb(kind), bytes,
       reinterpret_cast<void*>(address));
}

void access_global(uintptr_t address, size_t bytes, Kind kind) {
  if (GlobalRegion* const region = region_of(address)) {
    check_region(*region, address, bytes, kind);
    if (region->kind != Region::kWorkspace) return;
    if (kind == Kind::kStrongRead) before_strong_load(address, bytes);
    // Another block may come in between, and have changed what is read.
    if (machine.resident.size() > 1 && one_in(is_strong(kind) ? 4 : 48)) give_way();
    if (writes(kind)) before_store(address, bytes);
    return;
  }
  const Call& call = *current->block->launch->call;
  if (!writes(kind) && address - reinterpret_cast<uintptr_t>(&call) < call.bytes) return;
  if (!writes(kind) && address >= image_begin && address + bytes <= image_end) return;
  fail_at(address, bytes, kind);
}

// Every load and store of a thread.
inline void access(const void* pointer, size_t bytes, Kind kind, bool whole = true) {
  if (current == nullptr) return;
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  const uintptr_t stack = reinterpret_cast<uintptr_t>(current->block->stacks) + current->index * kStackBytes;
  if (address - stack < kStackBytes) return;
  if (--accesses_left < 0) fail("loads and stores without end");
  // Of structures of 16 bytes the compiler says no more than that they are aligned to 8: the rest is its own
  // check's, in undefined.cpp.
  if (whole && address % std::min<size_t>(bytes, 8) != 0) {
    fail("%s %zu bytes at %p, misaligned", verb(kind), bytes, pointer);
  }
  if (access_shared(address, bytes, kind)) return;
  access_global(address, bytes, kind);
}

bool is_readable(uintptr_t address) {
  const GlobalRegion* const region = region_of(address);
  if (region == nullptr) return false;
  const size_t at = address - reinterpret_cast<uintptr_t>(region->begin);
  return region->row_bytes == 0 || at % region->stride_bytes < region->row_bytes;
}

template <class T>
T combine(Atomic operation, T before, T value, T compared) {
  using Signed = std::make_signed_t<T>;
  switch (operation) {
    case Atomic::kAdd: return static_cast<T>(before + value);
    case Atomic::kMin: return std::min(before, value);
    case Atomic::kMax: return std::max(before, value);
    case Atomic::kMinSigned:
      return static_cast<T>(std::min(static_cast<Signed>(before), static_cast<Signed>(value)));
    case Atomic::kMaxSigned:
      return static_cast<T>(std::max(static_cast<Signed>(before), static_cast<Signed>(value)));
    case Atomic::kAnd: return before & value;
    case Atomic::kOr: return before | value;
    case Atomic::kXor: return before ^ value;
    case Atomic::kExchange: return value;
    default: return before == compared ? value : before;
  }
}

bool is_workspace(const void* pointer) {
  const GlobalRegion* const region = region_of(reinterpret_cast<uintptr_t>(pointer));
  return region != nullptr && region->kind == Region::kWorkspace;
}

// What an atomic, or a strong load or store, does to a word: what was there.
template <class Change>
uint64_t at_once(void* pointer, size_t bytes, bool reads, bool stores, Change&& change) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  if (address % bytes != 0) fail("an atomic of %zu bytes at %p, misaligned", bytes, pointer);
  const bool shared = access_shared(address, bytes, reads ? Kind::kStrongRead : Kind::kStrongWrite);
  if (shared) {
    if (reads && stores) access_shared(address, bytes, Kind::kStrongWrite);
  } else {
    GlobalRegion* const region = region_of(address);
    if (region == nullptr) fail_at(address, bytes, Kind::kStrongWrite);
    if (reads) check_region(*region, address, bytes, Kind::kStrongRead);
    if (stores) check_region(*region, address, bytes, Kind::kStrongWrite);
  }
  const bool global = is_workspace(pointer);
  if (global) {
    may_give_way();
    before_atomic(address, bytes);
  }
  uint64_t before = 0;
  std::memcpy(&before, pointer, bytes);
  if (stores) {
    const uint64_t after = change(before);
    std::memcpy(pointer, &after, bytes);
    if (after != before) made_progress();
    if (global) after_atomic(address, &before, bytes);
  }
  if (global) may_give_way();
  return before;
}

}  // namespace

void poison(void* memory, size_t bytes) {
  std::memset(memory, static_cast<unsigned char>(machine.settings.seed * 0x9D + 0x5B), bytes);
}

void add_region(const char* name, void* begin, size_t bytes, Region kind, size_t row_bytes,
                size_t stride_bytes) {
  if (image_end == 0) dl_iterate_phdr(find_image, nullptr);
  if (bytes == 0) return;
  accesses_left += kMostAccessesPerByte * static_cast<int64_t>(bytes);
  regions.push_back({name, static_cast<unsigned char*>(begin), bytes, kind, row_bytes, stride_bytes, {}});
  if (kind == Region::kInput || kind == Region::kInOut) return;
  regions.back().written.assign(bytes, 0);
  poison(begin, bytes);
}

uint32_t word_around(const void* from) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(from);
  if (address % 4 != 0) fail("reads 4 bytes at %p, misaligned", from);
  unsigned char bytes[4];
  poison(bytes, sizeof(bytes));
  bool is_any = false;
  for (size_t i = 0; i < sizeof(bytes); ++i) {
    if (!is_readable(address + i)) continue;
    bytes[i] = static_cast<const unsigned char*>(from)[i];
    is_any = true;
  }
  if (!is_any) access_global(address, sizeof(bytes), Kind::kRead);  // which says what is wrong
  uint32_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

bool is_written(const void* begin, size_t bytes, size_t& first) {
  const GlobalRegion* const region = region_of(reinterpret_cast<uintptr_t>(begin));
  if (region == nullptr || region->written.empty()) return true;
  const size_t at = static_cast<const unsigned char*>(begin) - region->begin;
  for (first = 0; first < bytes; ++first) {
    if (region->written[at + first] == 0) return false;
  }
  return true;
}

void clear_regions() {
  regions.clear();
  accesses_left = kMostAccesses;
}

void announce_host_access(const void* pointer, size_t bytes, bool writes_it) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  GlobalRegion* const region = region_of(address);
  if (region == nullptr) fail("work between kernels uses memory that is not the call's");
  check_region(*region, address, bytes, writes_it ? Kind::kWrite : Kind::kRead);
}

uint64_t atomic(Atomic operation, void* address, int bytes, uint64_t value, uint64_t compared) {
  return at_once(address, static_cast<size_t>(bytes), true, true, [&](uint64_t before) -> uint64_t {
    if (bytes == 8) return combine<uint64_t>(operation, before, value, compared);
    return combine<uint32_t>(operation, static_cast<uint32_t>(before), static_cast<uint32_t>(value),
                             static_cast<uint32_t>(compared));
  });
}

uint64_t load(const void* address, int bytes, bool acquires) {
  const uint64_t value = at_once(const_cast<void*>(address), static_cast<size_t>(bytes), true, false,
                                 [](uint64_t before) { return before; });
  if (acquires) acquire_stores();
  return value;
}

void store(void* address, int bytes, uint64_t value, bool releases) {
  if (releases) release_stores();
  at_once(address, static_cast<size_t>(bytes), false, true, [&](uint64_t) { return value; });
}

void fence() {
  release_stores();
  acquire_stores();
  may_give_way();
}

}  // namespace simt

// ---- What the compiler calls ----

extern "C" {

using simt::Kind;

#define SIMT_ACCESSES(bytes)                                                                               \
  void __tsan_read##bytes(void* at) { simt::access(at, bytes, Kind::kRead); }                              \
  void __tsan_write##bytes(void* at) { simt::access(at, bytes, Kind::kWrite); }                            \
  void __tsan_unaligned_read##bytes(void* at) { simt::access(at, bytes, Kind::kRead, /*whole=*/false); }   \
  void __tsan_unaligned_write##bytes(void* at) { simt::access(at, bytes, Kind::kWrite, /*whole=*/false); } \
  void __tsan_volatile_read##bytes(void* at) { simt::access(at, bytes, Kind::kStrongRead); }               \
  void __tsan_volatile_write##bytes(void* at) { simt::access(at, bytes, Kind::kStrongWrite); }
SIMT_ACCESSES(1)
SIMT_ACCESSES(2)
SIMT_ACCESSES(4)
SIMT_ACCESSES(8)
SIMT_ACCESSES(16)
#undef SIMT_ACCESSES

void __tsan_read_range(void* at, size_t bytes) { simt::access(at, bytes, Kind::kRead, /*whole=*/false); }
void __tsan_write_range(void* at, size_t bytes) { simt::access(at, bytes, Kind::kWrite, /*whole=*/false); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void*, void*) {}
// Of the host's own records.
uint64_t __tsan_atomic64_load(const volatile uint64_t* at, int) {
  return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}
uint64_t __tsan_atomic64_fetch_or(volatile uint64_t* at, uint64_t value, int) {
  return __atomic_fetch_or(at, value, __ATOMIC_SEQ_CST);
}

}  // extern "C"
