"""activities.jsonl is read line by line; what is no activity is counted."""

from __future__ import annotations

import json
import random

import pytest

from tfprobe.store.activities import ActivityLine, read_activities

FIELDS = {
    "activity": "save",
    "name": "Saver.save",
    "thread": "MainThread",
    "start_ns": 5,
    "end_ns": 9,
    "count": 2,
    "total_ns": 8,
}


def _read(tmp_path, *lines: object):
    path = tmp_path / "activities.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_activities(path)


def test_an_interval_is_read(tmp_path):
    """Kind, name, thread, times and the counts so far."""
    log = _read(tmp_path, FIELDS, {**FIELDS, "end_ns": None})

    assert log.lines == (
        ActivityLine("save", "Saver.save", "MainThread", 5, 9, 2, 8),
        ActivityLine("save", "Saver.save", "MainThread", 5, None, 2, 8),
    )


@pytest.mark.parametrize(
    "wrong",
    [
        *({"activity": value} for value in (None, 3, "")),
        *({"start_ns": value} for value in (None, "5", 1.5, True, 1 << 70)),
        *({"end_ns": value} for value in (4, "9", [], 1 << 70)),
        *({"count": value} for value in (None, -1, "2")),
        *({"total_ns": value} for value in (None, -1)),
    ],
)
def test_a_line_that_makes_no_sense_is_counted(tmp_path, wrong):
    """A number that is none, an end before the beginning."""
    log = _read(tmp_path, {**FIELDS, **wrong}, FIELDS)

    assert (len(log.lines), log.bad_lines) == (1, 1)


def test_an_absent_file_holds_none(tmp_path):
    """A recording of an older tfprobe tells no activities."""
    assert read_activities(tmp_path / "activities.jsonl").lines == ()


def test_any_damage_leaves_a_readable_log(tmp_path):
    """Random bytes anywhere never stop the reader."""
    path = tmp_path / "activities.jsonl"
    whole = (json.dumps(FIELDS) + "\n").encode() * 5
    rng = random.Random(7)
    for _ in range(200):
        content = bytearray(whole)
        for _ in range(rng.randrange(1, 30)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(bytes(content[: rng.randrange(len(content))]))

        log = read_activities(path)

        assert all(line.end_ns is None or line.end_ns >= line.start_ns for line in log.lines)
