"""The directory of a run, as the launcher makes it."""

from __future__ import annotations

import errno
import importlib.util
import os
import py_compile
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

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


def test_processes_of_the_same_python_need_not_compile_the_agent(
    tmp_path: Path, monkeypatch
) -> None:
    """Its bytecode is copied; a copy whose source somebody has edited is compiled all the same."""
    agent = _agent(tmp_path / "installed", "NUMBER = 1\n")
    monkeypatch.setattr(run_directory, "hooks_dir", lambda: agent.parent.parent)
    monkeypatch.setattr(run_directory.sys, "dont_write_bytecode", False)

    run = prepare.prepare(_settings(tmp_path), ["t.py"], agreed=None)

    copy = run.folder.boot / "tfprobe_agent" / "module.py"
    cache = Path(importlib.util.cache_from_source(str(copy)))
    assert cache.stat().st_mode & 0o777 == 0o600
    assert _number(copy, compiles=False) == 1
    copy.write_text("NUMBER = 2\n")
    assert _number(copy, compiles=True) == 2


def test_no_bytecode_is_stored_where_python_is_told_to_store_none(
    tmp_path: Path, monkeypatch
) -> None:
    """Neither in the installation nor in the run."""
    agent = _agent(tmp_path / "installed", "NUMBER = 1\n")
    monkeypatch.setattr(run_directory, "hooks_dir", lambda: agent.parent.parent)
    monkeypatch.setattr(run_directory.sys, "dont_write_bytecode", True)

    prepare.prepare(_settings(tmp_path), ["t.py"], agreed=None)

    assert list(tmp_path.rglob("*.pyc")) == []


def test_bytecode_of_an_older_source_is_not_copied(tmp_path: Path, monkeypatch) -> None:
    """The installation was edited since: the copy has the number of the new source."""
    agent = _agent(tmp_path / "installed", "NUMBER = 1\n")
    py_compile.compile(str(agent))
    agent.write_text("NUMBER = 22\n")
    monkeypatch.setattr(run_directory, "hooks_dir", lambda: agent.parent.parent)
    monkeypatch.setattr(run_directory.sys, "dont_write_bytecode", False)

    run = prepare.prepare(_settings(tmp_path), ["t.py"], agreed=None)

    assert _number(run.folder.boot / "tfprobe_agent" / "module.py", compiles=False) == 22


def _agent(hooks: Path, source: str) -> Path:
    """Make an installation of the agent of one module; return that."""
    (hooks / "tfprobe_agent").mkdir(parents=True)
    (hooks / "sitecustomize.py").write_text("")
    module = hooks / "tfprobe_agent" / "module.py"
    module.write_text(source)
    return module


def _number(module: Path, *, compiles: bool) -> int:
    """Load a module as Python does; return its number."""
    loader = _Loader("module", str(module))
    namespace: dict[str, int] = {}
    exec(loader.get_code("module"), namespace)
    assert loader.compiled is compiles
    return namespace["NUMBER"]


class _Loader(SourceFileLoader):
    """Notes whether it had to compile."""

    compiled = False

    def source_to_code(self, *args: Any, **kwargs: Any) -> Any:
        self.compiled = True
        return super().source_to_code(*args, **kwargs)

    def set_data(self, *args: Any, **kwargs: Any) -> None:
        """Store no bytecode."""


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
