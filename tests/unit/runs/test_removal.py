"""A run goes whole, by one rename, and only when nobody may still write to it."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.machines import NAMESPACE, live, machine
from tests.support.rundir import HOST, WrittenLoop, WrittenProcess, regular_steps, write_run
from tfprobe.errors import NoAnswer, UnreadableInput
from tfprobe.runs import removal
from tfprobe.runs import removal as holds
from tfprobe.runs.catalogue import list_runs
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.removal import leftovers, named_run, remove

LAUNCHED = {"pid_started_ticks": 1234, "pid_namespace": NAMESPACE}
DAY_S = 24 * 3600


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run of this machine that was killed."""
    loop = WrittenLoop(steps=regular_steps(5))
    process = WrittenProcess(loops=[loop], manifest={"pid_namespace": NAMESPACE})
    return write_run(tmp_path / "runs" / "r1", [process], manifest=LAUNCHED)


def _remove(root: Path, here, *, force: bool = False) -> removal.Removal:
    (done,) = remove([RunFolder(root)], here, force=force)
    return done


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_run_that_has_ended_goes_and_its_bytes_are_counted(root, tmp_path):
    """Nothing of it is left, not even hidden."""
    done = _remove(root, machine(tmp_path))

    assert done.problem is None
    assert done.freed_bytes > 160_000  # a loop of steps.bin
    assert _names(root.parent) == []


def test_a_run_that_is_over_goes_whatever_cannot_be_read_of_it(root, tmp_path):
    """How it ended is not known; that it did is."""
    (folder,) = RunFolder(root).processes()
    folder.steps.write_bytes(b"")

    done = _remove(root, machine(tmp_path))

    assert done.problem is None


@pytest.mark.parametrize("letter", ["S", "T"])
def test_a_run_that_is_there_stays_even_with_force(root, tmp_path, letter):
    """Running or stopped: its process will want its files."""
    here = machine(tmp_path)
    live(here.proc, 4711, 1234, letter)

    done = _remove(root, here, force=True)

    assert done.problem == f"is {'running' if letter == 'S' else 'stopped'}"
    assert (root / "run.json").exists()


@pytest.mark.parametrize("what", ["host", "boot", "container", "run.json", "process.json"])
def test_what_nobody_here_can_tell_takes_force(root, tmp_path, what):
    """Another machine, another boot of its name, another container, or lost manifests."""
    here = machine(tmp_path)
    if what == "host":
        here = replace(here, host="elsewhere")
    elif what == "boot":
        here = replace(here, boot_id="other")
    elif what == "container":
        here = replace(here, pid_namespace="pid:[8]")
    elif what == "run.json":
        shutil.rmtree(root / HOST)
        (root / "run.json").unlink()
        os.utime(root, (0, 0))
    else:
        next(root.glob("*/*/process.json")).unlink()

    refused = _remove(root, here)
    still = _names(root.parent)
    forced = _remove(root, here, force=True)

    assert refused.problem is not None
    assert (still, _names(root.parent)) == (["r1"], [])
    assert forced.problem is None


def test_a_run_that_is_just_starting_stays(tmp_path):
    """The launcher has made the directory and not yet written run.json."""
    root = write_run(tmp_path / "runs" / "r1")
    (root / "run.json").unlink()

    done = _remove(root, machine(tmp_path), force=True)

    assert done.problem is not None
    assert "just starting" in done.problem
    assert root.exists()


def test_a_job_that_starts_a_process_meanwhile_gets_its_run_back(root, tmp_path, monkeypatch):
    """Between the look and the rename: it is looked at once more, and put back."""
    here = machine(tmp_path)
    rename = os.rename

    def start_and_rename(source, target):
        live(here.proc, 4711, 1234)
        rename(source, target)

    monkeypatch.setattr(removal.os, "rename", start_and_rename)

    done = _remove(root, here)

    assert done.problem == "is running"
    assert _names(root.parent) == ["r1"]
    assert (root / "run.json").exists()


def test_a_process_with_the_boot_directory_on_its_path_holds_a_run(root, tmp_path):
    """A child of the job that has not imported TensorFlow yet is recorded nowhere else."""
    here = machine(tmp_path, p77=5)
    (here.proc / "77" / "comm").write_text("python\n")
    (here.proc / "77" / "environ").write_bytes(f"A=1\0PYTHONPATH=/x:{root / 'boot'}\0".encode())

    done = _remove(root, here, force=True)

    assert done.problem == "has still a process: pid 77 (python)"
    assert root.exists()


def test_links_are_not_followed(root, tmp_path):
    """What a link in a run leads to stays, and a link to a run is no run's name."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("data")
    (root / "link").symlink_to(outside)
    (root / HOST / "file").symlink_to(outside / "precious")
    alias = root.with_name("alias")
    alias.symlink_to(root)

    by_link = _remove(alias, machine(tmp_path), force=True)
    by_name = _remove(root, machine(tmp_path))

    assert by_link.problem is not None
    assert str(root) in by_link.problem
    assert (by_name.problem, _names(root.parent)) == (None, ["alias"])
    assert (outside / "precious").read_text() == "data"


def test_a_file_with_another_name_frees_nothing(root, tmp_path):
    """The bytes are still there, under that name."""
    size = (root / "boot" / "config.json").stat().st_size
    steps = next(root.glob("*/*/steps.bin"))
    os.link(steps, tmp_path / "kept.bin")

    done = _remove(root, machine(tmp_path))

    assert done.problem is None
    assert done.freed_bytes < 160_000 + size
    assert (tmp_path / "kept.bin").stat().st_nlink == 1


def test_a_run_of_another_user_stays(root, tmp_path, monkeypatch):
    """Who may write the directory could rename it, and then not delete what is in it."""
    owner = root.stat().st_uid
    monkeypatch.setattr(holds.os, "geteuid", lambda: owner + 1)

    done = _remove(root, machine(tmp_path), force=True)

    assert done.problem is not None
    assert done.problem.startswith("belongs to user ")
    assert _names(root.parent) == ["r1"]


@pytest.mark.parametrize("place", ["inner", "deep/er/inner"])
def test_a_run_that_holds_another_stays(root, tmp_path, place):
    """The inner one may be running, and has to be named by itself."""
    write_run(root / place)

    done = _remove(root, machine(tmp_path), force=True)

    assert done.problem == f"holds another run, {place}"


def test_names_with_newlines_and_long_ones_are_names(tmp_path):
    """A directory may be called anything that the file system takes."""
    for name in ("two\nlines", "x" * 255, "é" * 127):
        root = write_run(tmp_path / "runs" / name, manifest=LAUNCHED)

        assert _remove(root, machine(tmp_path)).problem is None
        assert _names(root.parent) == []


def test_a_run_that_is_gone_already_is_said_to_be(root, tmp_path):
    """Somebody else was faster."""
    shutil.rmtree(root)

    assert _remove(root, machine(tmp_path)).problem == "is gone"


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written_keeps_its_runs(root, tmp_path):
    """The rename is refused, and the run is whole."""
    root.parent.chmod(0o500)

    done = _remove(root, machine(tmp_path))

    root.parent.chmod(0o700)
    assert done.problem is not None
    assert "Permission denied" in done.problem
    assert (root / "run.json").exists()


def test_what_a_kill_left_half_removed_is_hidden_and_taken_later(root, tmp_path, monkeypatch):
    """No reader lists it, the next removal of leftovers finishes it."""
    here = machine(tmp_path)

    _interrupt_deletion(monkeypatch)

    with pytest.raises(KeyboardInterrupt):
        _remove(root, here)

    (half,) = root.parent.iterdir()
    assert half.name.startswith(".removing-")
    assert list_runs(root.parent, here) == ()
    assert leftovers(root.parent, [], here, time.time_ns()) == (half,)


def test_an_interrupt_puts_back_what_is_whole(root, tmp_path, monkeypatch):
    """Of several runs the one that was being deleted is hidden, the others have their names."""
    others = [write_run(root.with_name(name), manifest=LAUNCHED) for name in ("r2", "r3")]
    _interrupt_deletion(monkeypatch)

    with pytest.raises(KeyboardInterrupt):
        remove([RunFolder(path) for path in (root, *others)], machine(tmp_path), force=False)

    hidden, *whole = _names(root.parent)
    assert hidden.startswith(".removing-")
    assert whole == ["r1", "r2"]


def _interrupt_deletion(monkeypatch):
    """Let the first run that is deleted lose its manifest only."""

    def be_interrupted(path):
        (path / "run.json").unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(removal, "delete", be_interrupted)


def test_a_hidden_run_that_lives_is_no_leftover(root, tmp_path):
    """A removal was killed between the rename and its second look."""
    here = machine(tmp_path, p4711=1234)
    os.rename(root, root.with_name(".removing-abcdef-r1"))

    assert leftovers(root.parent, [], here, time.time_ns()) == ()


def test_a_link_is_no_leftover(root, tmp_path):
    """Whatever it is called."""
    root.with_name(".removing-abcdef-r1").symlink_to(root)

    assert leftovers(root.parent, [], machine(tmp_path), time.time_ns()) == ()


def test_stale_temporary_files_of_ended_runs_are_leftovers(root, tmp_path):
    """Files and windows that a killed process was writing, once they are a day old."""
    captures = next(root.glob("*/*/captures"))
    (captures / ".tmp-1-a.xplane.pb").write_bytes(b"x")
    (captures / ".tmp-window-7").mkdir()
    (captures / ".tmp-window-7" / ".tmp-inner").write_bytes(b"x")
    (captures / "000001-fit-0.xplane.pb").write_bytes(b"x")
    ended, now_ns = [RunFolder(root)], time.time_ns()

    young = leftovers(root.parent, ended, machine(tmp_path), now_ns)
    for path in captures.iterdir():
        os.utime(path, (now_ns // 10**9 - 2 * DAY_S,) * 2)
    old = leftovers(root.parent, ended, machine(tmp_path), now_ns)
    of_others = leftovers(root.parent, [], machine(tmp_path), now_ns)

    assert (young, of_others) == ((), ())
    assert sorted(path.name for path in old) == [".tmp-1-a.xplane.pb", ".tmp-window-7"]


def test_a_run_is_named_by_its_directory_or_id(root, monkeypatch):
    """Also from inside it, and never by what another run may be called tomorrow."""
    monkeypatch.chdir(root)

    found = [named_run(name, root.parent).root for name in (str(root), f"{root}/", "r1", ".")]

    assert found == [root] * 4
    with pytest.raises(NoAnswer, match="another run by now"):
        named_run("latest", root.parent)
    for name in (str(root.parent), "r2", str(root / "run.json"), "../r1/boot", ""):
        with pytest.raises(UnreadableInput, match="neither a run"):
            named_run(name, root.parent)
