"""gaps.jsonl is read line by line; a line whose numbers do not agree is none."""

from __future__ import annotations

import json
import random

import pytest

from tfprobe.runs.process_folder.gaps import gap_log

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


def read(path, **clock):
    log = gap_log(path, **clock)
    return log.read().things, log.bad_lines


def line(**changes) -> bytes:
    return json.dumps({**GAP, **changes}).encode() + b"\n"


def test_calls_have_their_functions(tmp_path):
    """Who called what from which line, how often and how long."""
    path = tmp_path / "gaps.jsonl"
    path.write_bytes(line())

    ((gap,), _) = read(path, process=2, shift_ns=10_000)

    assert (gap.process, gap.loop, gap.step, gap.cut) == (2, 1, 7, False)
    assert (gap.start_ns, gap.duration_ns) == (11_000, 700)
    assert [call.parent for call in gap.calls] == [None, 0, 1]
    batches = gap.calls[1]
    assert (batches.function, batches.file, batches.line) == ("batches", "/job/train.py", 9)
    assert (batches.called_line, batches.is_generator) == (12, True)
    assert (batches.count, batches.self_ns) == (3, 200)


def test_an_unfinished_last_line_is_ignored(tmp_path):
    """A kill in the middle of a line loses that gap only."""
    path = tmp_path / "gaps.jsonl"
    path.write_bytes(line() + line()[:-20])

    gaps, bad_lines = read(path)

    assert (len(gaps), bad_lines) == (1, 0)


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

    gaps, bad_lines = read(path)

    assert (len(gaps), bad_lines) == (2, 1)


def test_an_absent_file_holds_no_gap(tmp_path):
    """A process whose steps were never recorded has none."""
    assert read(tmp_path / "gaps.jsonl") == ([], 0)


def test_any_damage_leaves_a_readable_file(tmp_path):
    """Random bytes anywhere never stop the reader, and no gap's times ever disagree."""
    path = tmp_path / "gaps.jsonl"
    rng = random.Random(5)
    for _ in range(200):
        content = bytearray(line() * 5)
        for _ in range(rng.randrange(1, 40)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(bytes(content[: rng.randrange(len(content))]))

        gaps, _ = read(path)

        for gap in gaps:
            assert sum(call.self_ns for call in gap.calls) == gap.duration_ns
