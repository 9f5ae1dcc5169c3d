// A block's shared memory: see shared.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simt {

struct Block;
struct BlockMemory;

enum class Kind : uint8_t {
  kRead = 0,
  kWrite = 1,
  kStrongRead = 2,
  kStrongWrite = 3
};  // strong: atomic, volatile
inline bool writes(Kind kind) { return (static_cast<int>(kind) & 1) != 0; }
inline bool is_strong(Kind kind) { return (static_cast<int>(kind) & 2) != 0; }
inline const char* verb(Kind kind) { return writes(kind) ? "writes" : "reads"; }

BlockMemory* new_block_memory(size_t dynamic_bytes);
void free_block_memory(Block& block);
size_t static_bytes_of(const Block& block);  // that have been written
void enter_shared(Block& block);
void leave_shared(Block& block);

// Whether the address is of the block's shared memory, or of that of another block of its cluster; the access
// is then checked.
bool access_shared(uintptr_t address, size_t bytes, Kind kind);
// Where in whose shared memory an address lies: the block's own, or another's of its cluster. No block:
// nowhere.
struct Place {
  Block* block;
  bool is_static;
  size_t at;
};
Place place_of(const void* address);
// Puts a word there that has come from elsewhere, at any time since the barrier of the cluster behind which
// it was sent: what threads have done there since is found.
void put(const Place& place, const void* word, size_t bytes, int sent_in_phase);
// Distance from the block's dynamic shared memory, and its size, for messages.
ptrdiff_t from_dynamic(uintptr_t address, size_t& bytes);

}  // namespace simt
