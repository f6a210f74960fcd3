"""If a page of steps.bin may come from a server, none is mapped: no page fault can end the job."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.support.agent import PATIENCE_S, Laboratory, load, replace_unpatched
from tfprobe.runs.process_folder.steps import read_steps
from tfprobe.runs.process_folder.steps_layout import EndingRecord, count_steps

steps_file = load("core.steps_file")
START_NS = 7_000_000_000_000
SECOND_NS = 1_000_000_000


class Disk:
    """The system as the agent sees it: its clock stands still, writes fail or take time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = START_NS
        self.write_ns = 0
        self.error = 0
        self.writes = 0
        self._pwrite = steps_file.UNPATCHED.pwrite
        replace_unpatched(
            monkeypatch, steps_file, pwrite=self.pwrite, monotonic_ns=lambda: self.now_ns
        )
        monkeypatch.setattr(steps_file, "is_remote", lambda _: True)

    def pwrite(self, descriptor: int, data: bytes, at: int) -> int:
        self.now_ns += self.write_ns
        self.writes += 1
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        return self._pwrite(descriptor, data, at)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The disk of a server."""
    return Disk(monkeypatch)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("nfs4", True), ("fuse.sshfs", True), ("lustre", True), ("ext4", False), ("fusectl", False)],
)
def test_the_mount_of_a_file_says_whether_it_is_remote(
    monkeypatch: pytest.MonkeyPatch, kind: str, expected: bool
) -> None:
    """The kernel names the mount of an open file, and the type of each mount."""
    files = {
        "/proc/self/fdinfo/7": b"pos:\t0\nflags:\t02\nmnt_id:\t31\nino:\t9\n",
        "/proc/self/mountinfo": (
            b"30 1 8:1 / / rw - xfs /dev/sda1 rw\n"
            b"31 30 0:40 / /mnt/a\\040b rw,relatime shared:2 - " + kind.encode() + b" host:/a rw\n"
        ),
    }
    monkeypatch.setattr(steps_file, "read_file", lambda path, *_: files[path])

    assert steps_file.is_remote(7) == expected


def test_a_file_of_this_machine_is_mapped(tmp_path: Path) -> None:
    """So that a killed process loses no step."""
    assert steps_file.StepsFile(str(tmp_path / "steps.bin"), START_NS).mapping is not None


def test_a_file_is_mapped_if_no_mounts_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """No /proc in this container."""

    def absent(path: str, *_: int) -> bytes:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)

    monkeypatch.setattr(steps_file, "read_file", absent)

    assert not steps_file.is_remote(0)


@pytest.fixture
def remote(laboratory: Laboratory) -> Laboratory:
    """A job on a file system of another machine."""
    laboratory.arm(trace_level="off")
    with (laboratory.boot / "tfprobe_agent" / "core" / "steps_file.py").open("a") as module:
        module.write("\n\ndef is_remote(descriptor):\n    return True\n")
    return laboratory


def test_a_page_that_is_gone_does_not_end_the_job(remote: Laboratory) -> None:
    """A mapped page that cannot be read is a SIGBUS: of a truncated file or a failing server."""
    lines = remote.finish(f"""
import glob
session.run("loss")
(file,) = glob.glob({str(remote.run)!r} + "/*/*/steps.bin")
os.truncate(file, 0)
for i in range(3000): session.run("loss")
for i in range(300): session.run("other")
print("done")
""")

    assert lines == ["done"]


def test_a_job_without_a_mapping_is_recorded_whole(remote: Laboratory) -> None:
    """Its counts, and how it ended, which the C library stores when Python has ended."""
    job = remote.start("""
import ctypes
for i in range(3000): session.run("loss")
for i in range(30): session.run("other")
sys.exit(5)
""")
    job.communicate(timeout=PATIENCE_S)

    steps = remote.steps()
    assert {loop.name: loop.count for loop in steps.loops} == {"loss": 3000, "other": 30}
    assert steps.header.exit_status == 5


def test_os_exit_writes_what_is_left(remote: Laboratory) -> None:
    """No exit hook runs."""
    remote.finish("for i in range(300): session.run('loss')\nos._exit(0)")

    assert remote.counts() == {"loss": 300}
    assert remote.steps().header.exit_status == 0


def test_a_program_that_is_replaced_leaves_its_steps_behind(remote: Laboratory) -> None:
    """No exit hook runs, and another program follows."""
    remote.finish("for i in range(300): session.run('loss')\nos.execv('/bin/true', ['true'])")

    assert remote.counts() == {"loss": 300}
    assert remote.steps().header.ending == EndingRecord.REPLACED


def _stepping(path: Path):
    file = steps_file.StepsFile(str(path), START_NS)
    return file, file.add_loop("fit", "model", "MainThread", 77, START_NS)


def test_words_that_could_not_be_written_are_written_again(tmp_path: Path, disk: Disk) -> None:
    """A server that fails for a while costs nothing, if the job outlives that."""
    file, loop = _stepping(tmp_path / "steps.bin")
    disk.error = errno.ESTALE
    for _ in range(1500):
        loop.record(START_NS, START_NS + 5)
    file.look(disk.now_ns)
    refused = disk.writes

    file.look(disk.now_ns)
    disk.error = 0
    disk.now_ns += 10 * SECOND_NS
    file.look(disk.now_ns)

    (record,) = read_steps(tmp_path / "steps.bin").loops
    assert disk.writes > refused
    assert (record.executed, record.times.sum_ns) == (1500, 7500)


def test_writing_to_a_slow_server_takes_a_hundredth_of_the_time(tmp_path: Path, disk: Disk) -> None:
    """A look that took a second is followed by none for a hundred."""
    file, loop = _stepping(tmp_path / "steps.bin")
    disk.write_ns = SECOND_NS
    began_ns = disk.now_ns

    while disk.now_ns < began_ns + 1000 * SECOND_NS:
        loop.record(disk.now_ns, disk.now_ns + 5)
        file.look(disk.now_ns)
        disk.now_ns += SECOND_NS // 10

    assert 0 < disk.writes <= 14


def test_only_new_words_are_written(tmp_path: Path, disk: Disk) -> None:
    """A loop that has not stepped since costs no write."""
    file, loop = _stepping(tmp_path / "steps.bin")
    loop.record(START_NS, START_NS + 5)
    file.write()
    before = disk.writes

    file.write()

    assert disk.writes == before
    assert count_steps(tmp_path / "steps.bin") == 1


@pytest.mark.parametrize("news", [1, 1023, 1024, 2048, 8191, 8192, 8193, 20_000])
def test_any_number_of_steps_between_two_looks(tmp_path: Path, disk: Disk, news: int) -> None:
    """The ring may have wrapped, and the aggregate may be in the same slot again."""
    file, loop = _stepping(tmp_path / "steps.bin")
    for step in range(3000 + news):
        if step == 3000:
            file.write()
        loop.record(START_NS + 10 * step, START_NS + 10 * step + 5)
    file.write()

    (record,) = read_steps(tmp_path / "steps.bin").loops
    assert (record.executed, record.times.count) == (3000 + news,) * 2
    assert (record.times.sum_ns, record.gaps.sum_ns) == (
        5 * (3000 + news),
        5 * (2999 + news),
    )
    ends = record.recent.end_ns
    assert bool((ends[1:] - ends[:-1] == 10).all())
