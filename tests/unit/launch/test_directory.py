"""The directory of a run, as the launcher makes it."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from tfprobe.launch import prepare, run_directory
from tfprobe.launch.joining import Agreed
from tfprobe.launch.settings import Settings

GET_FLAGS, SET_FLAGS, NO_COPY_ON_WRITE = 0x80086601, 0x40086602, 0x00800000
COMPRESS = 0x4


class _Btrfs:
    """Keeps the flags of directories, and what was in one when they were set."""

    def __init__(self) -> None:
        self.flags: dict[str, int] = {}
        self.entries: list[list[str]] = []

    def ioctl(self, descriptor: int, request: int, argument: bytes) -> bytes:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if request == GET_FLAGS:
            return COMPRESS.to_bytes(4, sys.byteorder)
        assert request == SET_FLAGS
        self.entries.append(os.listdir(path))
        self.flags[path] = int.from_bytes(argument, sys.byteorder)
        return argument


@pytest.mark.parametrize("agreed", [None, Agreed("job", rank=())], ids=["alone", "shared"])
def test_a_run_is_written_in_place(tmp_path: Path, monkeypatch, agreed) -> None:
    """Where each write takes a new block, a full disk would end the job: the counts are mapped."""
    btrfs = _Btrfs()
    monkeypatch.setattr(run_directory.fcntl, "ioctl", btrfs.ioctl)

    run = prepare.prepare(_settings(tmp_path), ["t.py"], agreed=agreed)

    assert run.folder.boot.is_dir()
    assert list(btrfs.flags.values()) == [COMPRESS | NO_COPY_ON_WRITE]
    assert btrfs.entries == [[]], "set before anything was in it"


def _settings(tmp_path: Path) -> Settings:
    return Settings(
        output=str(tmp_path / "runs"),
        join=None,
        steps=None,
        every=10,
        budget_ratio=0.01,
        trace_level="full",
        report=False,
        quiet=True,
        debug=None,
        meter=False,
    )


def test_a_file_system_without_the_flag_is_as_good(tmp_path: Path, monkeypatch) -> None:
    """It refuses the request, and writes in place anyway."""

    def refuse(*_: object) -> bytes:
        raise OSError(errno.ENOTTY, "Inappropriate ioctl for device")

    monkeypatch.setattr(run_directory.fcntl, "ioctl", refuse)

    run_directory.make_directory(tmp_path / "run")

    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
    with pytest.raises(FileExistsError):
        run_directory.make_directory(tmp_path / "run")
