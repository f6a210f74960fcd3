"""steps.bin is read whole, live, and whatever a kill or a bad disk made of it."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from tests.support.rundir import (
    BUCKETS,
    CAPACITY_WORD,
    HEADER_WORDS,
    LAYOUT,
    LOOP_WORDS,
    MONO_NS,
    MONO_WORD,
    RING_STEPS,
    SLOT_WORDS,
    UNIX_NS,
    UNIX_WORD,
    VERSION_WORD,
    WrittenLoop,
    bucket,
    regular_steps,
    steps_bin,
)
from tfprobe.errors import Missing, UnreadableInput
from tfprobe.runs.process_folder.steps import bucket_of, read_steps
from tfprobe.runs.process_folder.steps_layout import AgentState, count_steps, read_header

WORD = LAYOUT.WORD
BLOCK_AT = HEADER_WORDS * WORD
COUNT_AT = BLOCK_AT + LAYOUT.COUNT * WORD
ACTIVE_AT = BLOCK_AT + LAYOUT.SLOT * WORD


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "steps.bin"
    path.write_bytes(content)
    return path


def test_count_is_executed_minus_raised(tmp_path):
    """A step that raised is not a completed step."""
    loop = WrittenLoop(steps=regular_steps(10), raised=[3, 4])

    (record,) = read_steps(written(tmp_path, steps_bin([loop]))).loops

    assert (record.executed, record.raised, record.count) == (10, 2, 8)


def test_a_work_is_read_with_its_names_and_counters(tmp_path):
    """Kind, name, thread, samples, retraces and steps per execution are those of the process."""
    loop = WrittenLoop(
        kind="fit",
        name="modèle",
        thread="Thread-1",
        steps=regular_steps(5),
        sampled=[2],
        retraces=3,
        steps_per_execution=4,
    )

    (record,) = read_steps(written(tmp_path, steps_bin([loop]))).loops

    assert (record.kind, record.name, record.thread) == ("fit", "modèle", "Thread-1")
    assert (record.sampled, record.retraces, record.steps_per_execution) == (1, 3, 4)
    assert isinstance(record.optimizer_steps, Missing)
    assert record.recent.sampled.tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("count", [0, 1, 2, 255, 256, 257, 1000, RING_STEPS, RING_STEPS + 100])
def test_aggregates_hold_every_step_folded_or_not(tmp_path, count):
    """Count, sum, extremes and histogram cover the folded steps and those still in the ring."""
    rng = random.Random(count)
    steps, now = [], MONO_NS
    for _ in range(count):
        end = now + rng.randrange(1_000, 9_000_000)
        steps.append((now, end))
        now = end + rng.randrange(0, 50_000)
    durations = [end - start for start, end in steps]

    (record,) = read_steps(written(tmp_path, steps_bin([WrittenLoop(steps=steps)]))).loops

    assert (record.times.count, record.times.sum_ns) == (count, sum(durations))
    assert record.times.max_ns == max(durations, default=0)
    assert record.times.min_ns == min(durations, default=0)
    expected = np.bincount([bucket(d) for d in durations], minlength=BUCKETS)
    assert record.times.buckets.tolist() == expected.tolist()
    assert record.gaps.count == max(count - 1, 0)


def test_the_ring_leaves_out_the_step_the_writer_may_be_overwriting(tmp_path):
    """Of the remembered steps the oldest may be half-written, so a reader does without it."""
    steps = regular_steps(RING_STEPS + 10)

    (record,) = read_steps(written(tmp_path, steps_bin([WrittenLoop(steps=steps)]))).loops

    assert record.recent.first_step == 11
    assert record.recent.start_ns.tolist() == [start for start, _ in steps[11:]]
    assert record.recent.end_ns.tolist() == [end for _, end in steps[11:]]


def test_a_kill_between_row_and_count_loses_only_that_step(tmp_path):
    """The count is written last: a row beyond it does not exist."""
    content = bytearray(steps_bin([WrittenLoop(steps=regular_steps(20))]))
    content[COUNT_AT : COUNT_AT + WORD] = (19).to_bytes(WORD, "little")

    (record,) = read_steps(written(tmp_path, bytes(content))).loops

    assert (record.count, record.times.count, len(record.recent.start_ns)) == (19, 19, 19)


def test_a_kill_in_a_fold_leaves_the_other_slot(tmp_path):
    """Half a fold lies in the inactive slot, which a reader does not look at."""
    content = bytearray(steps_bin([WrittenLoop(steps=regular_steps(512))]))
    inactive_at = BLOCK_AT + (LAYOUT.AGGREGATES_AT + SLOT_WORDS) * WORD
    content[inactive_at : inactive_at + 4000] = b"\x7f" * 4000

    (record,) = read_steps(written(tmp_path, bytes(content))).loops

    assert (record.times.count, record.times.sum_ns) == (512, 512_000_000)


def test_a_live_writer_may_have_noted_a_raise_before_the_step(tmp_path):
    """One more raised than executed is a moment of a running process, not garbage."""
    content = bytearray(steps_bin([WrittenLoop(steps=regular_steps(1), raised=[0])]))
    content[COUNT_AT : COUNT_AT + WORD] = bytes(WORD)

    (record,) = read_steps(written(tmp_path, bytes(content))).loops

    assert record.count == 0


def test_header_facts_are_read(tmp_path):
    """State, exit, counters and clocks of the process come from the header."""
    header = {
        LAYOUT.STATE_WORD: LAYOUT.FINISHED,
        LAYOUT.EXIT_WORD: UNIX_NS + 5,
        LAYOUT.HOOK_CALLS: 10,
        LAYOUT.HOOK_NS: 900,
        LAYOUT.FOLD_NS: 80,
        LAYOUT.CAPTURES: 7,
        LAYOUT.TRACED_NS: 60,
        LAYOUT.ONCE_NS: 50,
    }

    found = read_header(written(tmp_path, steps_bin([], header)))

    assert found.state is AgentState.FINISHED
    assert (found.hook_calls_measured, found.hook_measured_ns, found.fold_ns) == (10, 900, 80)
    assert (found.captures_written, found.traced_ns, found.once_ns) == (7, 60, 50)
    assert found.unix_ns(MONO_NS + 3) == UNIX_NS + 3


def test_a_file_of_fewer_works_is_read(tmp_path):
    """Where the agent cannot map the file it holds fewer works."""
    content = steps_bin([WrittenLoop(steps=regular_steps(3))], {CAPACITY_WORD: 16})

    assert count_steps(written(tmp_path, content)) == 3


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"TFPSTEP1",
        bytes(4096),
        b"\xff" * 8192,
        steps_bin([], {VERSION_WORD: 2}),
        steps_bin([], {CAPACITY_WORD: 0}),
    ],
    ids=["empty", "magic only", "zeros", "ones", "layout 2", "no capacity"],
)
def test_what_is_no_steps_file_is_refused(tmp_path, content):
    """A file that is not a steps.bin of this layout is named, with what to do."""
    path = written(tmp_path, content)

    with pytest.raises(UnreadableInput, match=r"steps\.bin"):
        read_steps(path)


@pytest.mark.parametrize(
    "word",
    [
        UNIX_WORD,
        MONO_WORD,
        LAYOUT.EXIT_WORD,
        LAYOUT.STARTED_WORD,
        LAYOUT.ACTIVE_WORD,
        LAYOUT.EXIT_MONO_WORD,
    ],
)
@pytest.mark.parametrize("value", [-3, 2**63 - 1])
def test_impossible_times_are_refused(tmp_path, word, value):
    """Who calculates with them gets numbers that fit no 64 bits."""
    path = written(tmp_path, steps_bin([], {word: value}))

    with pytest.raises(UnreadableInput, match="impossible times"):
        read_header(path)


def test_a_missing_file_is_refused(tmp_path):
    """A process folder without steps.bin is an error a person can read."""
    with pytest.raises(UnreadableInput, match="cannot be opened"):
        read_header(tmp_path / "steps.bin")


def test_a_truncated_work_becomes_a_problem_and_the_others_stay(tmp_path):
    """A file cut in its second loop still tells the first."""
    content = steps_bin([WrittenLoop(steps=regular_steps(4))] * 2)
    cut = content[: (HEADER_WORDS + LOOP_WORDS + 100) * WORD]

    found = read_steps(written(tmp_path, cut))

    assert [loop.count for loop in found.loops] == [4]
    assert len(found.problems) == 1


def test_any_truncation_is_read_or_refused(tmp_path):
    """Wherever the file ends, a reader answers or says it cannot."""
    content = steps_bin([WrittenLoop(steps=regular_steps(300))])
    rng = random.Random(7)
    for length in (rng.randrange(len(content)) for _ in range(60)):
        path = written(tmp_path, content[:length])

        try:
            loops = read_steps(path).loops
        except UnreadableInput:
            assert length < HEADER_WORDS * WORD
            continue

        assert all(0 <= loop.count <= 300 for loop in loops)


def test_garbage_in_a_work_never_breaks_the_reader(tmp_path):
    """Random words in a block give numbers or a problem, never a traceback or a negative count."""
    content = steps_bin([WrittenLoop(steps=regular_steps(300))])
    rng = random.Random(11)
    for _ in range(60):
        broken = bytearray(content)
        for _ in range(rng.randrange(1, 30)):
            at = BLOCK_AT + rng.randrange(LOOP_WORDS) * WORD
            broken[at : at + WORD] = rng.randbytes(WORD)
        for at in (COUNT_AT, ACTIVE_AT):
            if rng.random() < 0.3:
                broken[at : at + WORD] = rng.randbytes(WORD)

        found = read_steps(written(tmp_path, bytes(broken)))

        assert len(found.loops) + len(found.problems) == 1
        assert all(loop.count >= 0 for loop in found.loops)


def test_buckets_are_those_of_the_contract():
    """16 buckets an octave from the bits of the double, the last one open."""
    values = [0, 1, 2, 3, 1000, 1_000_000, 10**18, 2**62]

    assert bucket_of(np.array(values)).tolist() == [bucket(value) for value in values]
