"""Whatever is wrong with us or our place, the job runs; only a wrong flag stops it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.launching import Ending, Launcher

SAY = ("sh", "-c", "echo ran; exit 3")


def _assert_ran_unrecorded(ended, *words: str) -> None:
    assert (ended.status, ended.stdout) == (3, b"ran\n")
    lines = ended.stderr.decode().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("tfprobe: ")
    assert lines[0].endswith("The command runs unrecorded.")
    for word in words:
        assert word in lines[0]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB, which needs root."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk(launcher: Launcher, small_disk: Path) -> None:
    """No room for the recorder: the job runs, and no half of a run is left."""
    small_disk.joinpath("fill").write_bytes(b"x" * 40_000)

    ended = launcher.tfprobe("run", "-o", small_disk / "runs", "--", *SAY)

    _assert_ran_unrecorded(ended, str(small_disk), "No space left on device")
    assert list(small_disk.joinpath("runs").iterdir()) == []


def test_a_read_only_place(launcher: Launcher, small_disk: Path) -> None:
    """A file system that takes no writes."""
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)

    ended = launcher.tfprobe("run", "-o", small_disk / "runs", "--", *SAY)

    _assert_ran_unrecorded(ended, "Read-only file system")


@pytest.mark.parametrize("place", ["/proc/tfprobe-runs", "file/runs", "file"])
def test_a_place_that_cannot_be_made(launcher: Launcher, place) -> None:
    """Nothing can be created there, or a file stands in the way."""
    launcher.write("file", "")

    ended = launcher.tfprobe("run", "-o", place, "--", *SAY)

    _assert_ran_unrecorded(ended, place, "Choose another directory with -o.")


def test_a_directory_that_may_not_be_written(launcher: Launcher, tmp_path: Path) -> None:
    """Permissions of somebody else."""
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.joinpath("closed").mkdir(mode=0o500)

    ended = launcher.tfprobe("run", "-o", tmp_path / "closed" / "runs", "--", *SAY)

    _assert_ran_unrecorded(ended, "Permission denied")


def test_a_vanished_current_directory(launcher: Launcher) -> None:
    """The directory was removed under the shell that starts the job."""
    line = f"mkdir gone; cd gone; rmdir ../gone; {launcher.program} run -- sh -c 'echo ran; exit 3'"

    ended = launcher.bare("sh", "-c", line)

    assert (ended.status, ended.stdout) == (3, b"ran\n")
    assert b"The command runs unrecorded." in ended.stderr


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("TFPROBE_STEPS", "10-5", "ends before it starts"),
        ("TFPROBE_EVERY", "often", "use a whole number"),
        ("TFPROBE_BUDGET", "1", "such as 1% or 0.01"),
        ("TFPROBE_TRACE_LEVEL", "loud", "full, software, off"),
        ("TFPROBE_REPORT", "perhaps", "1 or 0"),
        ("TFPROBE_OUTPUT", "/a:b", "PYTHONPATH"),
    ],
)
def test_a_wrong_variable_costs_only_the_recording(
    launcher: Launcher, variable, value, expected
) -> None:
    """One line names the variable, what it is and what it should be."""
    ended = launcher.tfprobe("run", "--", *SAY, env={variable: value})

    _assert_ran_unrecorded(ended, variable, repr(value), expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[run\n", "tfprobe.toml cannot be read"),
        ("\0", "tfprobe.toml cannot be read"),
        ("[run]\nevery = -1\n", "every in "),
        ("[run]\nsteps = '1'\nevery = 1\n", "both choose"),
        ("[run]\nbugdet = '1%'\n", "'bugdet'"),
        ("run = 1\n", "Write [run]."),
    ],
)
def test_a_wrong_file_costs_only_the_recording(launcher: Launcher, text, expected) -> None:
    """One line says what is wrong with tfprobe.toml."""
    launcher.write("tfprobe.toml", text)

    ended = launcher.tfprobe("run", "--", *SAY)

    _assert_ran_unrecorded(ended, "tfprobe.toml", expected)


@pytest.mark.parametrize(
    "flags",
    [
        ("--steps", "x"),
        ("--every", "0"),
        ("--budget", "200%"),
        ("--budget=1"),
        ("--trace-level", "some"),
        ("--steps", "1", "--every", "2"),
        ("--no-such-option",),
        ("--report=yes",),
        ("-o",),
        ("-o", "/a:b"),
    ],
)
def test_a_wrong_flag_stops_before_the_job(launcher: Launcher, flags) -> None:
    """Status 2 and one paragraph, whatever else is set; the job never starts."""
    flags = (flags,) if isinstance(flags, str) else flags
    ended = launcher.tfprobe("run", *flags, "--", *SAY, env={"TFPROBE_EVERY": "5"})

    assert (ended.status, ended.stdout) == (2, b"")
    assert len(ended.stderr.decode().splitlines()) == 1
    assert launcher.runs() == []


def test_no_command_is_a_wrong_flag(launcher: Launcher) -> None:
    """Nothing to run is a mistake of the command line."""
    assert launcher.run().status == 2
    assert launcher.run("--").status == 2


@pytest.mark.parametrize("descriptor", [0, 1, 2])
@pytest.mark.parametrize("flag", ["-q", "--report"])
def test_closed_descriptors_stay_closed(launcher: Launcher, descriptor, flag) -> None:
    """A job started with stdin, stdout or stderr closed finds exactly that, and nothing of ours."""
    look = "ls /proc/self/fd > seen; exit 4"
    close = f"{descriptor}>&-"

    bare = launcher.bare("sh", "-c", f"sh -c '{look}' {close}")
    bare_saw = (launcher.work / "seen").read_text()
    ended = launcher.bare(
        "sh", "-c", f"{launcher.program} run -o {launcher.output} {flag} -- sh -c '{look}' {close}"
    )

    assert ended.status == bare.status == 4
    assert (launcher.work / "seen").read_text() == bare_saw
    assert ended.stdout == b""


def test_a_broken_stderr_is_no_reason(launcher: Launcher) -> None:
    """Nobody reads our line: the job runs and is recorded all the same."""
    line = f"{launcher.program} run -o {launcher.output} -- sh -c 'exit 3' 2>/dev/full"

    assert launcher.bare("sh", "-c", line).status == 3
    assert len(launcher.runs()) == 1


def test_too_long_an_environment_runs_unrecorded(launcher: Launcher) -> None:
    """Where our one entry more is too much for the kernel, the job starts without it."""
    # The kernel's limit for one string of the environment is 32 pages.
    longest = "x" * (32 * 4096 - len("PYTHONPATH=") - 1)

    ended = launcher.tfprobe("run", "-o", "runs", "--", *SAY, env={"PYTHONPATH": longest})

    ended = Ending(ended.status, ended.stdout, ended.own_stderr)
    _assert_ran_unrecorded(ended, "Argument list too long")
