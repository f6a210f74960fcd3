"""events.jsonl and interpreters.tsv are read line by line, whole lines only."""

from __future__ import annotations

import random

from tfprobe.runs.process_folder.events import read_events, read_interpreters

LINE = b'{"unix_ns": 5, "mono_ns": 6, "event": "sample", "step": 3, "capture": "a.pb"}\n'


def test_an_unfinished_last_line_is_ignored(tmp_path):
    """A kill in the middle of a line loses that event only."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(LINE + LINE[:-20])

    log = read_events(path)

    assert ([event.integer("step") for event in log.events], log.bad_lines) == ([3], 0)


def test_a_garbage_line_is_counted_and_skipped(tmp_path):
    """Events around a damaged line are kept, and the report can say how many were lost."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(LINE + b"\x00\xff{nonsense\n" + b"[1]\n" + LINE)

    log = read_events(path)

    assert (len(log.events), log.bad_lines) == (2, 2)


def test_an_absent_log_holds_no_event(tmp_path):
    """A process that never wrote an event has an empty log."""
    assert read_events(tmp_path / "events.jsonl").events == ()


def test_any_damage_leaves_a_readable_log(tmp_path):
    """Random bytes anywhere never stop the reader."""
    path = tmp_path / "events.jsonl"
    rng = random.Random(5)
    for _ in range(100):
        content = bytearray(LINE * 5)
        for _ in range(rng.randrange(1, 40)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(bytes(content[: rng.randrange(len(content))]))

        log = read_events(path)

        assert len(log.events) <= 40


def test_interpreters_are_read(tmp_path):
    """Each Python that saw the boot directory is one row; half a row is none."""
    path = tmp_path / "interpreters.tsv"
    path.write_text("node7\t12\t99\t3.11.7\t/usr/bin/python3\nnode7\t13\t99\t3.6")

    (row,) = read_interpreters(path)

    assert (row.host, row.pid, row.executable) == ("node7", 12, "/usr/bin/python3")
