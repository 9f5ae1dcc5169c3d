"""What the emulator finds in kernels with one fault each, and nothing in those without: probes.cpp."""

from __future__ import annotations

import pytest

from tests.simt import emulated

WORDS = 64
SEEDS = range(1, 25)

# The result of a kernel that has no fault, of thread i.
RIGHT = {
    "nothing": lambda i: 1000 + i,
    "shares_with_a_barrier": lambda i: (i + 1) % WORDS,
    "shares_in_a_warp": lambda i: i ^ 1,
    "halves_of_warps": lambda i: 16,
    "adds_up_in_the_last_block": lambda i: 5,
    "reads_other_blocks_of_its_cluster": lambda i: 101,
    "reads_memory_of_its_cluster": lambda i: 101,
    "mails_to_its_cluster": lambda i: 7,
    "tells_its_cluster": lambda i: i % 6 // 2,
    "tells_its_cluster_without_any": lambda i: i % 6,
}
# A part of what is said of one that has.
WRONG = {
    "reads_behind_the_input": "reads 4 bytes at 256 of the input",
    "writes_before_the_output": "writes 4 bytes at -4 of the output",
    "reads_misaligned": "misaligned",
    "reads_behind_shared_memory": "at 256 of the block's 256 of dynamic shared memory",
    "reads_what_nobody_wrote": "nobody has written",
    "shares_without_a_barrier": "with no barrier between",
    "parts_ways_before_a_vote": "of its warp at",
    "votes_with_a_wrong_mask": "which lacks lane",
    "ends_before_a_barrier": "no thread can go on",
    "spins": "spins without end",
    "traps": "__trap",
    "never_ends": "without end",
    "reads_mail_too_early": "nobody has written|has not waited",
    "sends_mail_too_early": "not open|no barrier of the cluster since",
    "mails_to_used_memory": "mail comes to static shared memory",
    "waits_for_mail_that_nobody_sent": "waits without end for mail",
    "leaves_mail_unread": "ends that has not waited for its mail",
    "reads_other_blocks_too_early": "has not begun|nobody has written|no barrier between|which has ended",
}


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_found_where_there_is_nothing(name):
    for seed in SEEDS:
        assert emulated.library().probe(name, seed) == [RIGHT[name](i) for i in range(WORDS)]


@pytest.mark.parametrize("name", WRONG)
def test_faults_are_found(name):
    with pytest.raises(emulated.Found, match=WRONG[name]):
        emulated.library().probe(name, 3)


def test_a_race_is_found_whatever_the_order():
    """Lanes run in any order: that the writer came first is no excuse, nor that the reader did."""
    said = set()
    for seed in SEEDS:
        with pytest.raises(emulated.Found, match="no barrier between") as found:
            emulated.library().probe("shares_without_a_barrier", seed)
        said.add(str(found.value).split()[4])
    assert said == {"reads", "writes"}


@pytest.mark.parametrize(("name", "right"), [("adds_up_without_a_fence", 5), ("reads_memory_too_early", 101)])
def test_a_missing_fence_or_barrier_shows_under_some_schedules(name, right):
    """Stores that nothing lets go are seen late: the sum is short, or the word not even there."""
    wrong = 0
    for seed in SEEDS:
        try:
            wrong += emulated.library().probe(name, seed) != [right] * WORDS
        except emulated.Found:
            wrong += 1
    assert wrong > len(SEEDS) // 4
