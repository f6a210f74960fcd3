"""A run is pushed to a storage: what readers need, run.json last, and what is there not again."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tfprobe.cli.main import main
from tfprobe.errors import NoAnswer, UnreadableInput, UsageError
from tfprobe.runs.catalogue import glance
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine
from tfprobe.runs.remote import pushing
from tfprobe.runs.remote.mirror import fetched_run
from tfprobe.runs.remote.pushing import push


def _nobody(_done: int, _all: int) -> None:
    """Watch nothing."""


@pytest.fixture
def place() -> str:
    """An empty directory in memory."""
    return f"memory://{uuid.uuid4().hex}/runs"


def _there(place: str) -> dict[str, bytes]:
    root = place.removeprefix("memory:/")
    fs = fsspec.filesystem("memory")
    return {name.removeprefix(f"{root}/"): fs.cat_file(name) for name in fs.find(root)}


def test_a_pushed_run_is_read_from_there(run, place, cache) -> None:
    """As it was, without the agent, caches and temporary files."""
    push(RunFolder(run), place, _nobody)

    names = set(_there(place))
    mirror = fetched_run(f"{place}/r1", cache, _nobody)
    assert "r1/boot/interpreters.tsv" in names
    assert not any("agent" in name or "derived" in name or ".tmp" in name for name in names)
    assert glance(RunFolder(mirror), this_machine()).steps == 20


def test_a_run_is_pushed_to_a_directory(run, tmp_path) -> None:
    """file:// is a mounted disk."""
    push(RunFolder(run), f"file://{tmp_path}/backup", _nobody)

    assert glance(RunFolder(tmp_path / "backup" / "r1"), this_machine()).steps == 20


def test_the_empty_part_of_steps_is_left_behind(run, place, cache) -> None:
    """It is as long as all the loops it could hold."""
    for steps in run.glob("*/*/steps.bin"):
        os.truncate(steps, 40_000_000)

    pushed = push(RunFolder(run), place, _nobody)

    assert pushed.size_bytes < 1_000_000
    mirror = fetched_run(f"{place}/r1", cache, _nobody)
    assert glance(RunFolder(mirror), this_machine()).steps == 20


def test_pushing_again_copies_no_capture_again(run, place) -> None:
    """Captures are written once; what may have grown is copied."""
    push(RunFolder(run), place, _nobody)
    again = push(RunFolder(run), place, _nobody)

    assert again.already_there == 2


def test_a_push_that_is_interrupted_is_no_run_and_goes_on(run, place, cache, monkeypatch) -> None:
    """run.json is the last to arrive."""
    put_file, done = MemoryFileSystem.put_file, []

    def fail_later(self: object, source: str, key: str, **more: object) -> None:
        done.append(key)
        if len(done) == 5:
            raise ConnectionError("reset by peer")
        put_file(self, source, key, **more)

    monkeypatch.setattr(MemoryFileSystem, "put_file", fail_later)
    monkeypatch.setattr(pushing, "AT_ONCE", 1)
    with pytest.raises(UnreadableInput, match="cannot be written"):
        push(RunFolder(run), place, _nobody)
    with pytest.raises(NoAnswer):
        fetched_run(f"{place}/r1", cache, _nobody)
    monkeypatch.setattr(MemoryFileSystem, "put_file", put_file)

    push(RunFolder(run), place, _nobody)

    assert fetched_run(f"{place}/r1", cache, _nobody).name == "r1"


def test_another_run_of_that_name_is_not_overwritten(run, place) -> None:
    """Two machines may both call a run exp7."""
    push(RunFolder(run), place, _nobody)
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**manifest, "pid": 7}))

    with pytest.raises(UsageError, match="another run of this name"):
        push(RunFolder(run), place, _nobody)


@pytest.mark.parametrize("merged", [["r2"], ["r1", "r2"]])
def test_a_merged_run_of_other_parts_is_not_overwritten(run, place, merged) -> None:
    """Its first launch is the same, and so are host, pid and time."""
    _write_merged(run, merged)
    push(RunFolder(run), place, _nobody)
    before = _there(place)
    _write_merged(run, ["r1", "r3"])

    with pytest.raises(UsageError, match="another run of this name"):
        push(RunFolder(run), place, _nobody)
    assert _there(place) == before


def test_a_merged_run_that_was_extended_is_pushed_again(run, place) -> None:
    """What it was made of before is still in it."""
    _write_merged(run, ["r1"])
    push(RunFolder(run), place, _nobody)
    _write_merged(run, ["r1", "r2"])

    push(RunFolder(run), place, _nobody)

    assert json.loads(_there(place)["r1/run.json"])["merged"] == ["r1", "r2"]


@pytest.mark.parametrize("gone", ["none", "r1/run.json"])
def test_what_is_there_of_other_processes_is_not_added_to(run, place, gone) -> None:
    """They would be counted with those of this run, also where that push never ended."""
    push(RunFolder(run), place, _nobody)
    fs, root = fsspec.filesystem("memory"), place.removeprefix("memory:/")
    if gone != "none":
        fs.rm(f"{root}/{gone}")
    before = _there(place)
    (folder,) = run.glob("node1/*")
    folder.rename(folder.with_name("7-7"))

    with pytest.raises(UsageError, match=rf"holds node1/{folder.name}, which .* another run"):
        push(RunFolder(run), place, _nobody)
    assert _there(place) == before


def test_a_run_without_its_manifest_is_refused_before_anything_is_pushed(run, place) -> None:
    """It would never be a run there."""
    (run / "run.json").unlink()

    with pytest.raises(UnreadableInput, match=r"run\.json cannot be read: No such file"):
        push(RunFolder(run), place, _nobody)
    assert _there(place) == {}


def test_a_file_that_goes_meanwhile_is_named(run, place, monkeypatch) -> None:
    """Nothing is wrong with the storage."""
    put_file = MemoryFileSystem.put_file
    (lost,) = run.glob("node1/*/process.json")

    def lose(self: object, source: str, key: str, **more: object) -> None:
        lost.unlink(missing_ok=True)
        put_file(self, source, key, **more)

    monkeypatch.setattr(MemoryFileSystem, "put_file", lose)
    monkeypatch.setattr(pushing, "AT_ONCE", 1)

    with pytest.raises(UnreadableInput, match=f"{lost} cannot be read: No such file"):
        push(RunFolder(run), place, _nobody)


def _write_merged(run: Path, merged: list[str]) -> None:
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**manifest, "merged": merged}))


def test_the_command_says_where_the_run_is(run, place, capsys, monkeypatch) -> None:
    """And the other commands take that place, `ls` the directory of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(run.parent.parent / "cache"))

    pushed = main(["push", str(run), place])
    said = capsys.readouterr().out
    listed = main(["ls", place, "--json"])
    lines = json.loads(capsys.readouterr().out)["runs"]
    reported = main(["report", f"{place}/r1", "--json"])
    report = json.loads(capsys.readouterr().out)

    assert (pushed, listed, reported) == (0, 0, 0)
    assert said.startswith(f"{place}/r1: ")
    assert [(line["id"], line["steps"]) for line in lines] == [("r1", 20)]
    assert [process["host"] for process in report["processes"]] == ["node0", "node1"]


@pytest.mark.parametrize("words", [(), ("--state", "running")])
def test_a_listing_without_runs_names_the_url(run, place, words, capsys, monkeypatch) -> None:
    """Not the mirror of it here. A run that is half pushed is none yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(run.parent.parent / "cache"))
    push(RunFolder(run), place, _nobody)
    if not words:
        fsspec.filesystem("memory").rm(f"{place.removeprefix('memory:/')}/r1/run.json")

    assert main(["ls", place, *words]) == 1

    told = capsys.readouterr().err
    assert f"in {place}" in told
    assert "cache" not in told
    assert "tfprobe run" not in told


@pytest.mark.parametrize(
    "words",
    [
        ("push", "r1"),
        ("push", "a", "b", "memory://x"),
        ("push", "memory://x", "r1"),
        ("push", "memory://me:hunter2@x", "r1"),
        ("gc", "memory://x", "--keep", "1"),
        ("trace", "memory://x/r1", "--steps", "1"),
    ],
)
def test_what_storage_cannot_do_is_a_mistake(words, capsys) -> None:
    """Said in a paragraph, with status 2."""
    assert main(list(words)) == 2

    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert "hunter2" not in told


def test_a_remote_run_opens_in_python(run, place, monkeypatch, tmp_path: Path) -> None:
    """`tfprobe.open_run` takes the same names."""
    from tfprobe.recording import open_run

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    push(RunFolder(run), place, _nobody)

    assert open_run(f"{place}/r1").report()["run"]["id"] == "r1"
