// Mail between the blocks of a cluster: device/mailbox.cuh. It comes as late as may be, when it is waited
// for, so that what is read before shows; or, by the seed, at once.

#include <algorithm>

#include "machine.h"
#include "shared.h"

namespace simt {
namespace {

// The barrier of the cluster that what the thread does now comes before.
int phase_of_now() {
  const int phase = current->block->cluster->phase;
  return phase + (current->arrived_at == phase);
}

Mailbox& mailbox_at(const void* state, const char* what) {
  const Place place = place_of(state);
  if (place.block != nullptr) {
    for (Mailbox& box : place.block->mailboxes) {
      if (box.is_static == place.is_static && box.at == place.at) return box;
    }
  }
  fail("%s a mailbox that is not open", what);
}

void deliver(Mailbox& box) {
  for (const Letter& letter : box.letters) put(letter.to, &letter.word, letter.bytes, letter.sent_in_phase);
  box.letters.clear();
}

}  // namespace

void open_mailbox(const void* state) {
  const Place place = place_of(state);
  if (place.block != current->block) fail("opens a mailbox that is not of its shared memory");
  current->block->mailboxes.push_back({place.is_static, place.at, phase_of_now(), -1, 0, false, {}});
}

void expect_mail(const void* state, uint32_t bytes) {
  Mailbox& box = mailbox_at(state, "expects mail in");
  if (box.expected >= 0) fail("expects mail twice");
  box.expected = bytes;
  made_progress();
}

void send_mail(void* to, uint64_t word, uint32_t bytes, const void* state) {
  Mailbox& box = mailbox_at(state, "sends to");
  if (box.opened_in_phase >= current->cluster_phases) {
    fail("sends to a mailbox with no barrier of the cluster since it was opened");
  }
  const Place place = place_of(to);
  if (place.block != place_of(state).block) fail("sends a word to another block than its mailbox's");
  box.letters.push_back({place, word, bytes, current->cluster_phases});
  box.sent += bytes;
  if (box.expected >= 0 && box.sent > box.expected) fail("more mail has come than was expected");
  if (copies_early()) deliver(box);
  made_progress();
  may_give_way();
}

void wait_for_mail(const void* state) {
  const auto box = [&]() -> Mailbox& { return mailbox_at(state, "waits at"); };  // they may move meanwhile
  wait_for("mail", [&] { return box().expected >= 0 && box().sent >= box().expected; });
  if (box().sent > box().expected) fail("more mail has come than was expected");
  deliver(box());
  box().was_read = true;
}

const char* unread_mail(const Block& block) {
  const bool all_read = std::all_of(block.mailboxes.begin(), block.mailboxes.end(), [](const Mailbox& box) {
    return box.was_read || (box.expected < 0 && box.sent == 0);
  });
  return all_read ? nullptr : "a block ends that has not waited for its mail";
}

}  // namespace simt
