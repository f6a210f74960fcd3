"""gaps.jsonl is read line by line; a line whose numbers do not agree is none."""

from __future__ import annotations

import json
import random

import pytest

from tfprobe.runs.process_folder.gaps import read_gaps

GAP = {
    "work": 1,
    "step": 7,
    "start_ns": 1_000,
    "end_ns": 1_700,
    "cost_ns": 90,
    "cut": False,
    "calls": [[-1, 0, 0, 1, 100], [0, 1, 12, 3, 200], [1, 2, 0, 3, 400]],
    "functions": [
        ["/job/train.py", 3, "main", False],
        ["/job/train.py", 9, "batches", True],
        ["", 0, "time.sleep", False],
    ],
}


def line(**changes) -> bytes:
    return json.dumps({**GAP, **changes}).encode() + b"\n"


def test_calls_have_their_functions(tmp_path):
    """Who called what from which line, how often and how long."""
    path = tmp_path / "gaps.jsonl"
    path.write_bytes(line())

    (gap,) = read_gaps(path).gaps

    assert (gap.loop, gap.step, gap.start_ns, gap.end_ns, gap.cut) == (1, 7, 1_000, 1_700, False)
    assert [call.parent for call in gap.calls] == [None, 0, 1]
    batches = gap.calls[1]
    assert (batches.function.name, batches.function.line, batches.called_line) == ("batches", 9, 12)
    assert (batches.function.is_generator, batches.count, batches.self_ns) == (True, 3, 200)


def test_an_unfinished_last_line_is_ignored(tmp_path):
    """A kill in the middle of a line loses that gap only."""
    path = tmp_path / "gaps.jsonl"
    path.write_bytes(line() + line()[:-20])

    log = read_gaps(path)

    assert (len(log.gaps), log.bad_lines) == (1, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"end_ns": 1_701},
        {"end_ns": 1 << 80},
        {"cut": 0},
        {"step": -1},
        {"work": True},
        {"calls": None},
        {"calls": [[0, 0, 0, 1, 700]]},
        {"calls": [[-1, 3, 0, 1, 700]]},
        {"calls": [[-1, -1, 0, 1, 700]]},
        {"calls": [[-1, 0, 0, 1]]},
        {"calls": [[-2, 0, 0, 1, 700]]},
        {"calls": [7]},
        {"functions": [["/job/train.py", "3", "main", False]] * 3},
        {"functions": {"0": ["/job/train.py", 3, "main", False]}},
    ],
    ids=str,
)
def test_a_line_that_cannot_be_is_counted_and_skipped(tmp_path, changes):
    """Numbers that do not sum, calls before their callers, functions that are not there."""
    path = tmp_path / "gaps.jsonl"
    path.write_bytes(line() + line(**changes) + line())

    log = read_gaps(path)

    assert (len(log.gaps), log.bad_lines) == (2, 1)


def test_an_absent_file_holds_no_gap(tmp_path):
    """A process whose steps were never recorded has none."""
    assert read_gaps(tmp_path / "gaps.jsonl").gaps == ()


def test_any_damage_leaves_a_readable_file(tmp_path):
    """Random bytes anywhere never stop the reader, and no gap's times ever disagree."""
    path = tmp_path / "gaps.jsonl"
    rng = random.Random(5)
    for _ in range(200):
        content = bytearray(line() * 5)
        for _ in range(rng.randrange(1, 40)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(bytes(content[: rng.randrange(len(content))]))

        gaps = read_gaps(path).gaps

        for gap in gaps:
            assert sum(call.self_ns for call in gap.calls) == gap.end_ns - gap.start_ns
