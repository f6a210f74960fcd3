"""Write the directory of a run: private, in place, and with a copy of the agent."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import py_compile
import sys
from collections.abc import Mapping
from pathlib import Path

import tfprobe
from tfprobe.runs.agent_files import AGENT, ENTRY, hooks_dir
from tfprobe.runs.layout import TEMPORARY_PREFIX, RunFolder

# <linux/fs.h>: _IOR('f', 1, long), _IOW('f', 2, long) and FS_NOCOW_FL, which `chattr +C` sets.
_GET_FLAGS = 0x80086601
_SET_FLAGS = 0x40086602
_NO_COPY_ON_WRITE = 0x00800000
# The kernel reads and writes an int, whatever the requests say.
_FLAGS_BYTES = 4


def make_directory(path: Path) -> None:
    """Make it; raises FileExistsError where there is one, and OSError.

    A job keeps its counts in a mapped file, steps.bin, whose blocks are allocated beforehand. On
    btrfs that is not enough: each write takes a new block, and where the disk has none the job
    would end by SIGBUS. What is made in a directory inherits the flag, so it is set first.
    """
    path.mkdir(0o700)
    # Other file systems refuse: they have no such flag, because they write in place.
    with contextlib.suppress(OSError):
        _write_in_place(path)


def _write_in_place(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        answer = fcntl.ioctl(descriptor, _GET_FLAGS, bytes(_FLAGS_BYTES))
        flags = int.from_bytes(answer, sys.byteorder) | _NO_COPY_ON_WRITE
        fcntl.ioctl(descriptor, _SET_FLAGS, flags.to_bytes(_FLAGS_BYTES, sys.byteorder))
    finally:
        os.close(descriptor)


# The agent's entry again: what `site` looks for after it, where another sitecustomize was first.
_SECOND_ENTRY = "usercustomize.py"
# Where tfprobe is installed that records the run.
LAUNCHER = "launcher.json"


def write_boot(run: RunFolder, config: Mapping[str, object]) -> None:
    """Create the boot directory with the agent and its config.json. Raises OSError."""
    hooks = hooks_dir()
    run.boot.mkdir(0o700)
    _copy_tree(hooks / AGENT, run.boot / AGENT)
    write_file(run.config, (json.dumps(config) + "\n").encode())
    write_file(run.boot / LAUNCHER, (json.dumps(_launcher()) + "\n").encode())
    _copy_file(hooks / ENTRY, run.boot / _SECOND_ENTRY)
    _copy_file(hooks / ENTRY, run.boot / ENTRY)


def _launcher() -> dict[str, str]:
    """Return where tfprobe is, for notebooks in whose environment it is not installed."""
    return {
        "schema": "tfprobe.launcher/1",
        "python": sys.executable,
        "extension": str(Path(tfprobe.__file__).with_name("notebook.py")),
    }


def write_file(path: Path, content: bytes) -> None:
    """Write a private file so that a reader sees all of it or nothing. Raises OSError."""
    temporary = path.with_name(TEMPORARY_PREFIX + path.name)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.rename(temporary, path)


def _copy_tree(source: Path, target: Path, *, with_bytecode: bool = True) -> None:
    target.mkdir(0o700)
    for entry in source.iterdir():
        if entry.suffix == ".py":
            _copy_file(entry, target / entry.name)
            if with_bytecode:
                _copy_bytecode(entry, target / entry.name)
        elif entry.is_dir() and entry.name != "__pycache__":
            is_loaded = with_bytecode and entry.name != _TRIALS
            _copy_tree(entry, target / entry.name, with_bytecode=is_loaded)


# The part of the agent that only an arm of a trial loads.
_TRIALS = "trial"
# The header of a bytecode file (PEP 552): four bytes of magic number, four of flags, and eight of
# the source: its time and size or, with these flags, its hash, which is compared.
_HASHED = (0b11).to_bytes(4, "little")
_MAGIC_BYTES, _HEADER_BYTES = 4, 16


def _copy_bytecode(source: Path, target: Path) -> None:
    """Copy the bytecode of a module, so that no process of this version of Python compiles it.

    Compiling the agent took each job 45 ms. What this installation has not compiled yet is compiled
    here, once, unless Python is told to store no bytecode.
    """
    cache = Path(importlib.util.cache_from_source(str(source)))
    with contextlib.suppress(OSError, py_compile.PyCompileError):
        if not _is_of(cache, source):
            if sys.dont_write_bytecode:
                return
            py_compile.compile(str(source), str(cache), doraise=True)
        bytecode = cache.read_bytes()
        # Not the time of the source, which is another one in the copy.
        source_hash = importlib.util.source_hash(source.read_bytes())
        header = bytecode[:_MAGIC_BYTES] + _HASHED + source_hash
        copy = target.parent / "__pycache__" / cache.name
        copy.parent.mkdir(0o700, exist_ok=True)
        write_file(copy, header + bytecode[_HEADER_BYTES:])


def _is_of(cache: Path, source: Path) -> bool:
    """Tell whether stored bytecode is of this version of Python, and of the source as it is."""
    if not cache.is_file():
        return False
    status = source.stat()
    numbers = (0, int(status.st_mtime), status.st_size)
    expected = b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in numbers)
    with cache.open("rb") as file:
        return file.read(_HEADER_BYTES) == importlib.util.MAGIC_NUMBER + expected


def _copy_file(source: Path, target: Path) -> None:
    write_file(target, source.read_bytes())
