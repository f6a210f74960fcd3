"""A run in remote storage is mirrored: whole, once, only what changed, and nowhere else."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import uuid
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.support.rundir import HEADER_WORDS, LAYOUT
from tests.unit.runs.remote.conftest import WebServer
from tfprobe.errors import NoAnswer, TfprobeError, UnreadableInput, UsageError
from tfprobe.runs.catalogue import glance
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine
from tfprobe.runs.remote import mirror
from tfprobe.runs.remote import mirror as mirrors
from tfprobe.runs.remote.mirror import GLANCE, WHOLE, fetched_directory, fetched_run


def _nobody(_done: int, _all: int) -> None:
    """Watch nothing."""


def _names(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def storage(run: Path) -> str:
    """A directory of runs in memory with that run in it."""
    place = f"/{uuid.uuid4().hex}/runs"
    fs = fsspec.filesystem("memory")
    for name in _names(run):
        fs.pipe_file(f"{place}/r1/{name}", (run / name).read_bytes())
    return f"memory:/{place}"


@pytest.fixture(params=["memory", "http", "file"])
def url(request: pytest.FixtureRequest, run: Path) -> str:
    """The directory of runs by the URLs of three storages."""
    if request.param == "memory":
        return str(request.getfixturevalue("storage"))
    if request.param == "http":
        web: WebServer = request.getfixturevalue("web")
        return web.url
    return f"file://{run.parent}"


def _steps(mirror: Path) -> int:
    return glance(RunFolder(mirror), this_machine()).steps


def test_a_remote_run_is_read_like_a_local_one(url, run, cache) -> None:
    """All its files but the agent and the caches, with the same content."""
    mirror = fetched_run(f"{url}/r1", cache, _nobody)

    left_out = {"boot/tfprobe_agent/boot.py", "derived/cache", "node0/.tmp-half"}
    assert mirror.name == "r1"
    assert _names(mirror) == _names(run) - left_out
    assert all((mirror / name).read_bytes() == (run / name).read_bytes() for name in _names(mirror))
    assert _steps(mirror) == 20


def test_a_directory_of_runs_means_the_newest(url, run, cache) -> None:
    """As it does here."""
    assert fetched_run(url, cache, _nobody).name == "r1"


def test_a_listing_fetches_no_captures(url, cache) -> None:
    """What `ls` tells is in a few small files."""
    place = fetched_directory(url, cache, GLANCE, _nobody)

    assert _steps(place / "r1") == 20
    assert not list(place.rglob("*.pb"))


def test_a_listing_takes_nothing_from_a_whole_mirror(url, cache) -> None:
    """And the other way round it is completed."""
    fetched_directory(url, cache, GLANCE, _nobody)
    whole = _names(fetched_run(f"{url}/r1", cache, _nobody))

    place = fetched_directory(url, cache, GLANCE, _nobody)

    assert _names(place / "r1") == whole


@pytest.mark.slow
def test_only_what_changed_is_fetched_again(web, run, cache) -> None:
    """The second command on a finished run asks for sizes and fetches nothing."""
    fetched_run(f"{web.url}/r1", cache, _nobody)
    (events,) = run.glob("node1/*/events.jsonl")
    events.write_text('{"event": "exit"}\n')
    del web.asked[:]

    mirror = fetched_run(f"{web.url}/r1", cache, _nobody)

    files = [path for path in web.asked if not path.endswith("/") and "." in path.rsplit("/", 1)[1]]
    assert {path.rsplit("/", 1)[1] for path in files} == {"events.jsonl"}
    assert (mirror / events.relative_to(run)).read_text() == '{"event": "exit"}\n'


@pytest.mark.slow
def test_a_run_that_grows_is_followed(web, run, cache) -> None:
    """A new process, a longer file, one of the same length: all are there at the next command."""
    fetched_run(f"{web.url}/r1", cache, _nobody)
    shutil.copytree(run / "node1", run / "node2")
    (steps,) = run.glob("node0/*/steps.bin")
    words = bytearray(steps.read_bytes())
    words[(HEADER_WORDS + LAYOUT.COUNT) * LAYOUT.WORD] = 11  # steps of the first loop
    steps.write_bytes(words)
    os.utime(steps, (2_000_000_000, 2_000_000_000))

    assert _steps(fetched_run(f"{web.url}/r1", cache, _nobody)) == 31


def test_what_is_gone_there_goes_here(storage, cache) -> None:
    """A process that somebody removed, and a run."""
    fetched_run(f"{storage}/r1", cache, _nobody)
    fs = fsspec.filesystem("memory")
    fs.rm(f"{storage.removeprefix('memory:/')}/r1/node1", recursive=True)

    mirror = fetched_run(f"{storage}/r1", cache, _nobody)
    assert _steps(mirror) == 10

    fs.pipe_file(f"{storage.removeprefix('memory:/')}/r2/run.json", b"{}")
    fs.rm(f"{storage.removeprefix('memory:/')}/r1", recursive=True)
    place = fetched_directory(storage, cache, WHOLE, _nobody)
    assert sorted(path.name for path in place.iterdir() if path.is_dir()) == ["r2"]


def test_mirrors_are_private(storage, cache) -> None:
    """Directories are 0700 and files 0600: a recording may hold what its storage hides."""
    fetched_run(f"{storage}/r1", cache, _nobody)

    paths = list((cache / "tfprobe" / "remote").rglob("*"))
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode) & 0o077) for path in paths}
    assert modes == {(True, 0), (False, 0)}


@pytest.mark.slow
def test_zeros_take_no_room(web, run, cache) -> None:
    """steps.bin is as long as all the loops it could hold."""
    (steps,) = run.glob("node0/*/steps.bin")
    os.truncate(steps, 40_000_000)

    mirror = fetched_run(f"{web.url}/r1", cache, _nobody)

    copy = mirror / steps.relative_to(run)
    assert copy.stat().st_size == 40_000_000
    assert copy.stat().st_blocks * 512 < 2_000_000
    assert _steps(mirror) == 20


EVIL = [
    *("..", ".", "", "../up", "a/../../up", "/etc/passwd", "x\0y", "a\\b", "new\nline"),
    "n" * 256,
]


def test_names_that_lead_elsewhere_are_left_out(storage, run, cache, tmp_path, monkeypatch) -> None:
    """No `..`, no absolute path, no link: what a listing says is not trusted."""
    ls = MemoryFileSystem.ls

    def evil_ls(self: object, path: str, **more: object) -> list[dict[str, Any]]:
        bad = [*(f"{path}/{name}" for name in EVIL), *EVIL, "/other/run.json"]
        kinds = [("file", {}), ("directory", {}), ("link", {}), ("file", {"islink": True})]
        found = [
            {"name": name, "type": kind, "size": 5, **also}
            for name in bad
            for kind, also in kinds[:2]
        ]
        links = [
            {"name": f"{path}/link{at}", "type": kind, "size": 5, **also}
            for at, (kind, also) in enumerate(kinds[2:])
        ]
        gone = {"name": f"{path}/gone", "type": "directory", "size": 0}
        return [*ls(self, path, **more), *found, *links, gone]

    monkeypatch.setattr(MemoryFileSystem, "ls", evil_ls)
    before = _names(tmp_path / "here")

    mirror = fetched_run(f"{storage}/r1", cache, _nobody)

    assert _names(mirror) <= _names(run)
    assert _steps(mirror) == 20
    assert _names(tmp_path / "here") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "here"]


@pytest.mark.parametrize(
    ("url", "error", "said"),
    [
        ("nosuch://bucket/r1", UsageError, "no storage is called 'nosuch'"),
        ("memory://nowhere/at/all", UnreadableInput, "nothing at memory://nowhere"),
        ("http://127.0.0.1:1/r1", UnreadableInput, "http://127.0.0.1:1/r1 cannot be"),
        ("http://user:hunter2@127.0.0.1:1/r1", UnreadableInput, "http://***@127.0.0.1:1/r1"),
        ("http://user:p@hunter2@127.0.0.1:1/r1", UnreadableInput, "http://***@127.0.0.1:1/r1"),
        ("http://user:p/hunter2@127.0.0.1:1/r1", UnreadableInput, "http://***@127.0.0.1:1/r1"),
        ("http://127.0.0.1:1/r1?sig=hunter2", UnreadableInput, "http://127.0.0.1:1/r1?sig=***"),
        ("gs://bucket/r1", UsageError, "pip install gcsfs"),
    ],
)
def test_what_cannot_be_read_is_told(url, error, said, cache, monkeypatch) -> None:
    """One paragraph that names the place, what was tried and what to do; no password in it."""
    monkeypatch.setitem(sys.modules, "gcsfs", None)  # as where it is not installed
    with pytest.raises(TfprobeError) as raised:
        fetched_run(url, cache, _nobody)

    assert isinstance(raised.value, error)
    assert said in str(raised.value)
    assert "hunter2" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("moment", [float("nan"), float("inf"), 1e300, -1e300, "garbage", ""])
def test_a_time_that_no_file_can_have_is_none(moment, storage, cache, monkeypatch) -> None:
    """A storage may say anything of its files."""
    entries = MemoryFileSystem.ls

    def listed(self: MemoryFileSystem, path: str, detail: bool = True, **more: Any) -> Any:
        found = entries(self, path, detail=detail, **more)
        return [{**each, "mtime": moment, "created": moment} for each in found]

    monkeypatch.setattr(MemoryFileSystem, "ls", listed)

    assert _steps(fetched_run(f"{storage}/r1", cache, _nobody)) == 20


def test_a_run_that_is_half_pushed_is_none(cache) -> None:
    """run.json comes last."""
    place = uuid.uuid4().hex
    fsspec.filesystem("memory").pipe_file(f"/{place}/r1/node/1-1/process.json", b"{}")

    with pytest.raises(NoAnswer, match=r"no run\.json"):
        fetched_run(f"memory://{place}/r1", cache, _nobody)


def test_without_permission_it_is_said(storage, cache, monkeypatch) -> None:
    """By the storage's own refusal."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("Forbidden")

    monkeypatch.setattr(MemoryFileSystem, "ls", refuse)

    with pytest.raises(UnreadableInput, match="closed to you"):
        fetched_run(f"{storage}/r1", cache, _nobody)


def test_a_fetch_that_is_interrupted_goes_on_where_it_was(storage, cache, monkeypatch) -> None:
    """What has arrived is whole, and is not fetched again."""
    get_file, fetched = MemoryFileSystem.get_file, []

    def fail_later(self: object, key: str, target: str, **more: object) -> None:
        fetched.append(key)
        if len(fetched) == 4:
            raise ConnectionError("reset by peer")
        get_file(self, key, target, **more)

    monkeypatch.setattr(MemoryFileSystem, "get_file", fail_later)
    monkeypatch.setattr(mirror, "AT_ONCE", 1)
    with pytest.raises(UnreadableInput, match="reset by peer"):
        fetched_run(f"{storage}/r1", cache, _nobody)
    first = set(fetched[:3])
    monkeypatch.setattr(MemoryFileSystem, "get_file", get_file)

    assert not list(cache.rglob(".tmp-*"))
    assert _steps(fetched_run(f"{storage}/r1", cache, _nobody)) == 20
    assert len(first) == 3


def test_a_cache_that_cannot_be_written_is_told(storage, tmp_path) -> None:
    """With where it is and how to choose another."""
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match="XDG_CACHE_HOME"):
        fetched_run(f"{storage}/r1", tmp_path / "file", _nobody)


def test_mirrors_that_were_not_used_for_long_go(storage, cache, monkeypatch) -> None:
    """By age, and the oldest of too many; never the one in use."""
    fetched_run(f"{storage}/r1", cache, _nobody)
    (index,) = cache.glob("tfprobe/remote/*/.index-r1")
    os.utime(index, (0, 0))
    other = uuid.uuid4().hex
    fsspec.filesystem("memory").pipe_file(f"/{other}/r9/run.json", b"{}")

    fetched_run(f"memory://{other}/r9", cache, _nobody)
    assert not (index.parent / "r1").exists()

    monkeypatch.setattr(mirrors, "MOST_BYTES", 0)
    fetched_run(f"{storage}/r1", cache, _nobody)
    assert [path.name for path in cache.glob("tfprobe/remote/*/r*")] == ["r1"]
