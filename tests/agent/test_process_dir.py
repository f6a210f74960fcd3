"""Lines of events, activities and the like, on a disk that fails for a while or is slow."""

from __future__ import annotations

import errno
import json
import os
from collections import deque
from pathlib import Path

import pytest

from tests.support.agent import load, replace_unpatched

process_dir = load("core.process_dir")
SECOND_NS = 1_000_000_000


class Disk:
    """A disk on which each write takes time, and may fail after some bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = SECOND_NS
        self.write_ns = 0
        self.writes = 0
        self.room_bytes: int | None = None
        self._write = process_dir.UNPATCHED.write
        replace_unpatched(
            monkeypatch, process_dir, write=self.write, monotonic_ns=lambda: self.now_ns
        )

    def write(self, descriptor: int, data: bytes) -> int:
        self.now_ns += self.write_ns
        self.writes += 1
        if self.room_bytes is None:
            return self._write(descriptor, data)
        if not self.room_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._write(descriptor, data[: self.room_bytes])
        self.room_bytes -= written
        return written


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The disk of a job."""
    return Disk(monkeypatch)


@pytest.fixture
def log(tmp_path: Path, disk: Disk):
    """The process folder of a job."""
    return process_dir.ProcessDir(str(tmp_path), SECOND_NS)


def _numbers(log) -> list[object]:
    lines = Path(log.path("events.jsonl")).read_text().splitlines()
    return [event.get("number", event.get("what")) for event in map(json.loads, lines)]


@pytest.mark.parametrize("room_bytes", [0, 1, 40, 70, 150])
def test_lines_wait_for_room(log, disk: Disk, room_bytes: int) -> None:
    """None is lost or repeated, and a line cut in half continues where it stopped."""
    log.event("first", number=0)
    disk.room_bytes = room_bytes
    for number in range(1, 5):
        log.event("next", number=number)
    disk.room_bytes = None

    log.event("last", number=5)

    assert _numbers(log) == [0, 1, 2, 3, 4, 5]


class Emptied(deque[bytes]):
    """Lines of which another thread takes the last one right after the check for some."""

    def __bool__(self) -> bool:
        return True


@pytest.mark.usefixtures("disk")
def test_two_threads_may_write_at_once(log) -> None:
    """Each line is taken by one of them."""
    log.event("first", number=0)
    log._logs["events.jsonl"]._waiting = Emptied()

    log.event("next", number=1)

    assert _numbers(log) == [0, 1]


def test_the_number_of_lost_lines_is_written(log, disk: Disk) -> None:
    """A disk that stays full does not fill the memory of the job instead."""
    disk.room_bytes = 0
    for number in range(20):
        log.event("next", number=number, text="x" * (process_dir.WAITING_BYTES // 10))
    disk.room_bytes = None

    log.write_lines()

    *numbers, lost = _numbers(log)
    assert numbers == list(range(10))
    assert lost == "10 lines found no room"


def test_writing_to_a_slow_disk_takes_a_hundredth_of_the_time(log, disk: Disk) -> None:
    """Lines wait for later ones."""
    disk.write_ns = SECOND_NS
    for number in range(1000):
        disk.now_ns += SECOND_NS
        log.event("next", number=number)
    writes = disk.writes

    log.write_lines()

    # a write of one second, then a pause of a hundred, with a line every second or two
    assert writes <= 12
    assert _numbers(log) == list(range(1000))


def test_a_fast_disk_is_written_at_once(log, disk: Disk) -> None:
    """Whoever follows the job sees each line as it comes."""
    for number in range(3):
        log.event("next", number=number)

        assert _numbers(log) == list(range(number + 1))
