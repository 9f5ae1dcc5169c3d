// Shared memory. Static variables lie in this library's thread_local segment: see shim/simt.h. It holds those
// of the block whose turn it is; the lines that a block has touched are copied out at the end of its turn and
// back at the next, and all others hold poison.
//
// Of each word it is known who wrote it last and who read it, so that two threads that touch it with no
// barrier between them, one of them writing, are found whatever the order they came in: by a barrier of the
// block, a __syncwarp of their warp, or a barrier of the cluster. Mail (mail.cpp) counts as written before
// all.

#include "shared.h"

#include <link.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "machine.h"

namespace simt {
namespace {

volatile thread_local char segment_anchor;  // so that the segment is there, and never empty
unsigned char* segment;                     // of static shared memory
size_t segment_bytes;
constexpr size_t kLine = 256;

int find_segment(dl_phdr_info* info, size_t, void*) {
  const uintptr_t own = reinterpret_cast<uintptr_t>(&find_segment);
  bool is_own = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    is_own |= header.p_type == PT_LOAD && own - begin < header.p_memsz;
  }
  if (!is_own) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_TLS) continue;
    segment = static_cast<unsigned char*>(info->dlpi_tls_data);
    segment_bytes = info->dlpi_phdr[i].p_memsz;
  }
  return 1;
}

// One access to a word of four bytes.
struct Touch {
  uint16_t thread;  // in the cluster
  uint8_t bytes;    // of the word, a bit each; 0: there was none
  bool strong;
  uint32_t barriers, warp_syncs;
  int32_t phase;  // the cluster's barrier that this access comes before
};
struct Word {
  Touch write, read[2];
};

// What is known of a stretch of shared memory.
struct Shadow {
  std::vector<uint8_t> written;  // a byte each
  std::vector<Word> words;

  void resize(size_t bytes) {
    written.resize(bytes);
    words.resize((bytes + 3) / 4 + 1);
  }
  void forget(size_t first, size_t bytes) {
    std::memset(written.data() + first, 0, bytes);
    std::memset(static_cast<void*>(words.data() + first / 4), 0, (bytes + 3) / 4 * sizeof(Word));
  }
};

}  // namespace

struct BlockMemory {
  unsigned char* saved;         // what the segment holds at the block's turn
  std::vector<uint64_t> lines;  // a bit for each that the block, or another of its cluster, has touched
  Shadow of_static, of_dynamic;
  unsigned char* dynamic;
  size_t dynamic_bytes;

  void touch(size_t first, size_t bytes) {
    for (size_t line = first / kLine; line <= (first + bytes - 1) / kLine; ++line) {
      lines[line / 64] |= uint64_t{1} << line % 64;
    }
  }
  template <class Visit>
  void each_line(Visit&& visit) const {
    for (size_t word = 0; word < lines.size(); ++word) {
      for (uint64_t left = lines[word]; left != 0; left &= left - 1) {
        const size_t first = (word * 64 + static_cast<size_t>(__builtin_ctzll(left))) * kLine;
        visit(first, std::min(kLine, segment_bytes - first));
      }
    }
  }
};

namespace {

std::vector<BlockMemory*> spare_memory;
Block* entered = nullptr;

const Thread& thread_of(const Touch& touch) {
  const Block* const block = current->block->cluster->blocks[touch.thread / 1024];
  return block->threads[touch.thread % 1024];
}

// Whether what was done at `touch` is over and done with for the thread that runs.
bool is_before(const Touch& touch) {
  const Thread& own = *current;
  const Block& block = *own.block;
  if (touch.thread == block.rank * 1024 + own.index) return true;
  if (touch.phase < own.cluster_phases) return true;
  if (touch.thread / 1024 != block.rank) return false;
  if (touch.barriers < block.barriers) return true;
  return touch.thread % 1024 / 32 == own.index / 32 && touch.warp_syncs < thread_of(touch).warp_syncs;
}

[[noreturn]] void race(const Touch& other, bool other_writes, Kind kind, const char* what, size_t at) {
  fail(
      "%s %s shared memory at %zu, which thread %u of the block, or rank %u of its cluster, %s with no "
      "barrier "
      "between",
      verb(kind), what, at, other.thread % 1024u, other.thread / 1024u, other_writes ? "wrote" : "read");
}

void check_word(Word& word, const Touch& now, Kind kind, const char* what, size_t at) {
  const auto conflicts = [&](const Touch& other) {
    return (other.bytes & now.bytes) != 0 && !(other.strong && now.strong) && !is_before(other);
  };
  if (conflicts(word.write)) race(word.write, true, kind, what, at);
  if (!writes(kind)) {
    // Of two readers one is another thread than any writer to come.
    Touch& same = word.read[0].thread == now.thread || word.read[0].bytes == 0 ? word.read[0] : word.read[1];
    same = now;
    return;
  }
  for (const Touch& read : word.read) {
    if (conflicts(read)) race(read, false, kind, what, at);
  }
  word.write = now;
}

void check(Shadow& shadow, const char* what, size_t at, size_t bytes, Kind kind) {
  uint8_t* const written = shadow.written.data() + at;
  if (kind == Kind::kRead || kind == Kind::kStrongRead) {
    for (size_t i = 0; i < bytes; ++i) {
      if (written[i] == 0) {
        fail("reads %zu bytes of %s shared memory, at %zu, of which nobody has written number %zu", bytes,
             what, at, i);
      }
    }
  } else {
    std::memset(written, 1, bytes);
  }
  const Block& block = *current->block;
  Touch now{static_cast<uint16_t>(block.rank * 1024 + current->index),
            0,
            is_strong(kind),
            block.barriers,
            current->warp_syncs,
            block.cluster->phase + (current->arrived_at == block.cluster->phase)};
  for (size_t word = at / 4; word * 4 < at + bytes; ++word) {
    const size_t first = std::max(at, word * 4) % 4, end = std::min(at + bytes - word * 4, size_t{4});
    now.bytes = static_cast<uint8_t>((1u << end) - (1u << first));
    check_word(shadow.words[word], now, kind, what, at);
  }
}

bool access_of(Block& block, const unsigned char* statics, uintptr_t address, size_t bytes, Kind kind) {
  BlockMemory& memory = *block.memory;
  const size_t in_static = address - reinterpret_cast<uintptr_t>(statics);
  const size_t in_dynamic = address - reinterpret_cast<uintptr_t>(memory.dynamic);
  const bool is_static = in_static < segment_bytes && in_static + bytes <= segment_bytes;
  const bool is_dynamic = in_dynamic < memory.dynamic_bytes && in_dynamic + bytes <= memory.dynamic_bytes;
  if (!is_static && !is_dynamic) return false;
  if (!block.begun) fail("%s shared memory of block %u, which has not begun", verb(kind), block.index);
  if (is_static && writes(kind)) memory.touch(in_static, bytes);
  check(is_static ? memory.of_static : memory.of_dynamic, is_static ? "static" : "dynamic",
        is_static ? in_static : in_dynamic, bytes, kind);
  return true;
}

}  // namespace

BlockMemory* new_block_memory(size_t dynamic_bytes) {
  if (segment == nullptr) {
    segment_anchor = 1;
    dl_iterate_phdr(find_segment, nullptr);
    if (segment == nullptr) fail("no thread_local segment");
    poison(segment, segment_bytes);
  }
  if (spare_memory.empty()) {
    auto* const fresh = new BlockMemory{};
    void* const saved = mmap(nullptr, segment_bytes + kLine, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (saved == MAP_FAILED) fail("no memory for shared memory");
    fresh->saved = static_cast<unsigned char*>(saved);
    fresh->lines.resize(segment_bytes / kLine / 64 + 1);
    fresh->of_static.resize(segment_bytes);
    spare_memory.push_back(fresh);
  }
  BlockMemory* const memory = spare_memory.back();
  spare_memory.pop_back();
  memory->dynamic_bytes = dynamic_bytes;
  memory->dynamic = static_cast<unsigned char*>(aligned_alloc(128, (dynamic_bytes + 255) / 128 * 128));
  poison(memory->dynamic, dynamic_bytes);
  memory->of_dynamic.resize(dynamic_bytes);
  memory->of_dynamic.forget(0, dynamic_bytes);
  return memory;
}

void enter_shared(Block& block) {
  const BlockMemory& memory = *block.memory;
  memory.each_line(
      [&](size_t first, size_t bytes) { std::memcpy(segment + first, memory.saved + first, bytes); });
  entered = &block;
}

void leave_shared(Block& block) {
  const BlockMemory& memory = *block.memory;
  memory.each_line([&](size_t first, size_t bytes) {
    std::memcpy(memory.saved + first, segment + first, bytes);
    poison(segment + first, bytes);
  });
  entered = nullptr;
}

void free_block_memory(Block& block) {
  if (entered == &block) leave_shared(block);
  BlockMemory* const memory = block.memory;
  block.memory = nullptr;
  memory->each_line([&](size_t first, size_t bytes) {
    memory->of_static.forget(first, bytes);
    poison(memory->saved + first, bytes);
  });
  std::fill(memory->lines.begin(), memory->lines.end(), 0);
  free(memory->dynamic);
  memory->dynamic = nullptr;
  memory->dynamic_bytes = 0;
  spare_memory.push_back(memory);
}

size_t static_bytes_of(const Block& block) {
  size_t count = 0;
  block.memory->each_line([&](size_t first, size_t bytes) {
    const uint8_t* const written = block.memory->of_static.written.data() + first;
    count += static_cast<size_t>(std::count(written, written + bytes, 1));
  });
  return count;
}

bool access_shared(uintptr_t address, size_t bytes, Kind kind) {
  Block& own = *current->block;
  if (access_of(own, segment, address, bytes, kind)) return true;
  if (own.cluster->blocks.size() == 1) return false;
  for (Block* block : own.cluster->blocks) {
    if (block == nullptr || block == &own) continue;
    if (access_of(*block, block->memory->saved, address, bytes, kind)) return true;
  }
  return false;
}

Place place_of(const void* address) {
  const auto in = [&](const unsigned char* begin) {
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(begin);
  };
  Block& own = *current->block;
  for (Block* block : own.cluster->blocks) {
    if (block == nullptr) continue;
    const BlockMemory& memory = *block->memory;
    const size_t in_static = in(block == &own ? segment : memory.saved), in_dynamic = in(memory.dynamic);
    if (in_static < segment_bytes) return {block, true, in_static};
    if (in_dynamic < memory.dynamic_bytes) return {block, false, in_dynamic};
  }
  return {nullptr, false, 0};
}

void put(const Place& place, const void* word, size_t bytes, int sent_in_phase) {
  BlockMemory& memory = *place.block->memory;
  const size_t room = place.is_static ? segment_bytes : memory.dynamic_bytes;
  if (place.at % bytes != 0 || place.at + bytes > room) fail("mail of %zu bytes to %zu", bytes, place.at);
  Shadow& shadow = place.is_static ? memory.of_static : memory.of_dynamic;
  for (size_t i = place.at / 4; i < (place.at + bytes) / 4; ++i) {
    for (const Touch& touch : {shadow.words[i].write, shadow.words[i].read[0], shadow.words[i].read[1]}) {
      if (touch.bytes == 0 || touch.phase < sent_in_phase) continue;
      fail(
          "mail comes to %s shared memory at %zu, which thread %u of the block, or rank %u of its cluster, "
          "has touched",
          place.is_static ? "static" : "dynamic", place.at, touch.thread % 1024u, touch.thread / 1024u);
    }
    shadow.words[i] = {};
  }
  std::memset(shadow.written.data() + place.at, 1, bytes);
  if (place.is_static) memory.touch(place.at, bytes);
  unsigned char* const statics = place.block == entered ? segment : memory.saved;
  std::memcpy((place.is_static ? statics : memory.dynamic) + place.at, word, bytes);
}

ptrdiff_t from_dynamic(uintptr_t address, size_t& bytes) {
  bytes = current->block->memory->dynamic_bytes;
  return static_cast<ptrdiff_t>(address - reinterpret_cast<uintptr_t>(current->block->memory->dynamic));
}

unsigned char* dynamic_shared() { return current->block->memory->dynamic; }

void* map_shared(const void* address, unsigned rank) {
  Block& own = *current->block;
  if (rank >= own.cluster->blocks.size()) {
    fail("maps shared memory of block %u of a cluster of %zu", rank, own.cluster->blocks.size());
  }
  if (rank == own.rank) return const_cast<void*>(address);
  Block* const other = own.cluster->blocks[rank];
  if (other == nullptr) fail("maps shared memory of block %u of its cluster, which has ended", rank);
  const size_t in_static = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(segment);
  if (in_static < segment_bytes) return other->memory->saved + in_static;
  size_t dynamic_bytes = 0;
  const ptrdiff_t in_dynamic = from_dynamic(reinterpret_cast<uintptr_t>(address), dynamic_bytes);
  if (in_dynamic < 0 || static_cast<size_t>(in_dynamic) >= dynamic_bytes) {
    fail("maps an address that is not of its shared memory");
  }
  return other->memory->dynamic + in_dynamic;
}

}  // namespace simt
