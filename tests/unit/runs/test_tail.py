"""Files of lines that grow are read on from where they were read before."""

from __future__ import annotations

import os
import random

import pytest

from tfprobe.runs.process_folder.jsonl import Latest, Tail, integer, whole_lines


def _append(path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def test_only_new_lines_are_given(tmp_path):
    """Each line comes once."""
    path = tmp_path / "lines"
    tail = Tail(path)
    path.write_bytes(b"1\n2\n")
    first = tail.read().lines
    _append(path, b"3\n")

    assert (first, tail.read().lines, tail.read().lines) == ([b"1", b"2"], [b"3"], [])


def test_a_line_is_given_when_it_is_finished(tmp_path):
    """What follows the last newline is still being written."""
    path = tmp_path / "lines"
    tail = Tail(path)
    path.write_bytes(b"1\n2")
    first = tail.read().lines
    _append(path, b"2\n")

    assert (first, tail.read().lines) == ([b"1"], [b"22"])


def test_however_a_file_grows_all_its_lines_are_given_once(tmp_path):
    """Whatever part of a line was there at a look."""
    dice = random.Random(5)
    path = tmp_path / "lines"
    content = b"".join(b"%d\n" % dice.randrange(10**9) for _ in range(500))
    tail, found, at = Tail(path), [], 0
    while at < len(content):
        size = dice.randrange(1, 200)
        _append(path, content[at : at + size])
        at += size
        found += tail.read().lines

    assert found == whole_lines(path)
    assert found == content.split(b"\n")[:-1]


def test_a_file_that_shrank_is_read_from_its_start(tmp_path):
    """And says so, so that what was read before is forgotten."""
    path = tmp_path / "lines"
    tail = Tail(path)
    path.write_bytes(b"1\n2\n3\n")
    tail.read()

    path.write_bytes(b"4\n")

    assert tail.read() == ([b"4"], True)


def test_another_file_that_is_longer_is_read_from_its_start(tmp_path):
    """Where the number of the old file was given to the new one, too."""
    path = tmp_path / "lines"
    tail = Tail(path)
    path.write_bytes(b"1\n2\n")
    tail.read()

    path.write_bytes(b"5\n6\n7\n")

    assert tail.read() == ([b"5", b"6", b"7"], True)


def test_a_file_put_in_its_place_is_read_from_its_start(tmp_path):
    """A rename replaces it."""
    path, other = tmp_path / "lines", tmp_path / "other"
    tail = Tail(path)
    path.write_bytes(b"1\n2\n")
    tail.read()
    other.write_bytes(b"1\n2\n3\n")

    os.replace(other, path)

    assert tail.read() == ([b"1", b"2", b"3"], True)


def test_a_file_that_vanishes_has_no_lines(tmp_path):
    """And those before are gone with it; one that comes again is new."""
    path = tmp_path / "lines"
    tail = Tail(path)
    path.write_bytes(b"1\n")
    tail.read()
    path.unlink()

    gone, still_gone = tail.read(), tail.read()
    path.write_bytes(b"1\n")

    assert (gone, still_gone, tail.read()) == (([], True), ([], False), ([b"1"], True))


def test_of_a_long_file_the_end_is_read(tmp_path):
    """Whoever wants the latest reads no megabytes for them, and no part of a line."""
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(1000)))

    lines = Tail(path, last_bytes=30).read().lines

    assert lines == [b"line 997", b"line 998", b"line 999"]


def test_a_pipe_or_directory_in_its_place_holds_nobody(tmp_path):
    """A reader that waits would be a hang."""
    os.mkfifo(tmp_path / "pipe")

    assert Tail(tmp_path / "pipe").read().lines == []
    assert Tail(tmp_path).read().lines == []


def test_of_a_file_that_fills_the_memory_the_last_lines_are_read(tmp_path):
    """A file of nothing takes no room on a disk, and may be longer than any memory."""
    path = tmp_path / "lines"
    with path.open("wb") as file:
        file.truncate(1 << 40)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast\n")

    assert Tail(path).read().lines == [b"last"]


def test_the_latest_are_kept_and_bad_lines_counted(tmp_path):
    """What is no number here is not one of them."""
    path = tmp_path / "lines"
    latest = Latest(path, lambda fields: integer(fields, "n"), keep=2, last_bytes=1000)
    path.write_bytes(b'{"n": 1}\nrubbish\n{"n": 2}\n')
    first = latest.read()
    _append(path, b'{"n": 3}\n{"m": 4}\n')

    assert (first, latest.read(), latest.bad_lines) == ((1, 2), (2, 3), 2)
    assert latest.read() is latest.read()


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b", "n" * 5000])
def test_a_name_that_no_file_can_have_is_that_of_no_file(tmp_path, name):
    """A recording may call its host so; that ends no report."""
    assert Tail(tmp_path / name).read().lines == []
