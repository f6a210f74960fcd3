"""activities.jsonl is read line by line; what is no activity is counted."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from tfprobe.profile.activities import Activity
from tfprobe.runs.process_folder import activities
from tfprobe.runs.process_folder.activities import ActivityHistory, ActivityLog, read_activities

FIELDS = {
    "activity": "save",
    "name": "Saver.save",
    "thread": "MainThread",
    "start_ns": 5,
    "end_ns": 9,
    "count": 2,
    "total_ns": 8,
}


def _read(tmp_path, *lines: object, shift_ns: int = 0):
    path = tmp_path / "activities.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_activities(path, process=3, shift_ns=shift_ns)


def test_an_interval_is_read(tmp_path):
    """Kind, name, thread, times and the counts so far."""
    log = _read(tmp_path, FIELDS, {**FIELDS, "start_ns": 6, "end_ns": None}, shift_ns=100)

    assert log.ended == (Activity(3, "save", "Saver.save", "MainThread", 105, 109, 2, 8),)
    assert log.begun == (Activity(3, "save", "Saver.save", "MainThread", 106, 106, 2, 8),)


def test_what_has_not_ended_lasts_to_the_last_sign_of_life(tmp_path):
    """Its time counts; a line that tells the end makes the one of the beginning superfluous."""
    begun = {**FIELDS, "end_ns": None}

    log = _read(tmp_path, begun, FIELDS, {**begun, "start_ns": 6})

    ended = Activity(3, "save", "Saver.save", "MainThread", 5, 9, 2, 8)
    assert log.until(20) == (ended, replace(ended, start_ns=6, end_ns=20, count=3, total_ns=22))
    assert log.until(0) == (ended, replace(ended, start_ns=6, end_ns=9, count=3, total_ns=11))


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

    assert (len(log.ended), log.bad_lines) == (1, 1)


def test_an_absent_file_holds_none(tmp_path):
    """A recording of an older tfprobe tells no activities."""
    assert read_activities(tmp_path / "activities.jsonl") == ActivityLog((), (), 0)


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

        assert all(activity.end_ns >= activity.start_ns for activity in log.until(1 << 62))


def test_a_long_file_is_few_intervals_and_exact_counts(tmp_path, monkeypatch):
    """Of a month of two callbacks a second the first, some between, and the last of each."""
    monkeypatch.setattr(activities, "MOST_KEPT", 2000)
    monkeypatch.setattr(activities, "_PART_BYTES", 10_000)
    rare = {**FIELDS, "name": "rare", "end_ns": 6, "count": 1, "total_ns": 1}
    often = [
        {**FIELDS, "name": name, "start_ns": i, "end_ns": i + 1, "count": i, "total_ns": 3 * i}
        for i in range(1, 6001)
        for name in ("begin", "end")
    ]
    train = {**FIELDS, "activity": "train", "start_ns": 7, "end_ns": None}
    ended = {**train, "end_ns": 9_000}
    goes_on = {**train, "start_ns": 9_500}

    log = _read(tmp_path, train, *often[:6000], rare, *often[6000:], ended, goes_on)

    assert log.bad_lines == 0
    assert len(log.ended) + len(log.begun) <= 2100
    by_name = {
        name: [activity for activity in log.ended if activity.name == name]
        for name in ("begin", "end")
    }
    for lines in by_name.values():
        assert [each.count for each in lines[:256]] == list(range(1, 257))
        assert max((each.count, each.total_ns) for each in lines) == (6000, 18_000)
        assert len({each.count for each in lines}) == len(lines) > 500
    assert [activity.name for activity in log.ended].count("rare") == 1
    (trained,) = [activity for activity in log.ended if activity.kind == "train"]
    assert (trained.start_ns, trained.end_ns) == (7, 9_000)
    assert [activity.start_ns for activity in log.begun] == [9_500]


def test_a_file_that_grows_is_read_once(tmp_path):
    """Lines that come later end what had begun, and count on."""
    path = tmp_path / "activities.jsonl"
    begun = {**FIELDS, "activity": "train", "end_ns": None}
    path.write_text(json.dumps(begun) + "\n" + json.dumps(FIELDS) + "\n")
    history = ActivityHistory(path)

    assert history.read()
    assert [activity.end_ns for activity in history.log.ended] == [9]
    assert [activity.kind for activity in history.log.begun] == ["train"]
    assert not history.read()
    with path.open("a") as file:
        file.write(json.dumps({**begun, "end_ns": 90}) + "\n")
        file.write(json.dumps({**FIELDS, "count": 3}) + "\n")

    assert history.read()
    assert sorted((each.end_ns, each.count) for each in history.log.ended) == [
        (9, 2),
        (9, 3),
        (90, 2),
    ]
