"""PYTHONPATH, names of runs, and what the doctor cuts off a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfprobe.errors import UsageError
from tfprobe.launch import ptrace
from tfprobe.launch.doctor import interpreter
from tfprobe.launch.doctor.checks import State, machine_checks
from tfprobe.launch.execute import with_boot
from tfprobe.launch.prepare import command_name
from tfprobe.launch.settings import find_config_file


def _boot(folder: Path) -> str:
    folder.joinpath("tfprobe_agent").mkdir(parents=True)
    folder.joinpath("sitecustomize.py").touch()
    folder.joinpath("config.json").touch()
    return str(folder)


def test_older_boot_directories_leave_the_path(tmp_path: Path) -> None:
    """They are known by their files, wherever they lie; look-alikes stay."""
    outer = _boot(tmp_path / "outer" / "boot")
    other = tmp_path / "boot"
    other.mkdir()

    path = with_boot("/new/boot", f"/a:{outer}::{other}:{outer}/:/b")

    assert path == f"/new/boot:/a::{other}:/b"


def test_an_empty_last_element_survives_the_outer_boot(tmp_path: Path) -> None:
    """It means the current directory, and the user put it there."""
    outer = _boot(tmp_path / "boot")

    assert with_boot("/new", f"{outer}:") == "/new:"
    assert with_boot("/new", outer) == "/new"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py", "--lr", "1"], "train"),
        (["/usr/bin/python3.11", "-u", "dir/train.py"], "train"),
        (["python", "-m", "package.train"], "package.train"),
        (["python", "-W", "ignore", "train.py"], "train"),
        (["python", "-c", "import x"], "python"),
        (["env", "A=1", "python3", "run.py"], "run"),
        (["bash", "job.sh"], "job"),
        (["./my job!"], "my-job"),
        (["..."], "command"),
        (["x" * 100], "x" * 40),
    ],
)
def test_a_run_is_named_after_its_script(command, name) -> None:
    """The word a person would know the job by, fit for a path."""
    assert command_name(command) == name


@pytest.mark.parametrize(
    ("command", "python"),
    [
        ("python3 train.py --lr 1", "python3"),
        ("python3.11 -I -W ignore -m package --x", "python3.11 -I -W ignore"),
        ("python -Xdev -Bc pass", "python -Xdev"),
        ("env -i /venv/bin/python -u -", "env -i /venv/bin/python -u"),
        ("srun -n 2 python t.py", "srun -n 2 python"),
    ],
)
def test_the_doctor_runs_no_script(command, python) -> None:
    """The command is cut after the interpreter's own options."""
    assert " ".join(interpreter.words(command.split(), {"PATH": ""})) == python


def test_the_doctor_reads_the_first_line_of_a_script(tmp_path: Path) -> None:
    """A script that names its interpreter is as good as the interpreter."""
    script = tmp_path / "train"
    script.write_text("#!/usr/bin/env -S python3 -E\n")

    assert interpreter.words([str(script)], {}) == ["/usr/bin/env", "python3", "-E"]


def test_the_doctor_needs_an_interpreter() -> None:
    """A shell script could start anything."""
    with pytest.raises(UsageError, match="No Python interpreter"):
        interpreter.words(["bash", "job.sh"], {})


@pytest.mark.parametrize(
    ("environment", "state"),
    [
        ({}, State.PASSED),
        ({"TF_DISABLE_PROFILING": ""}, State.WARNING),
        ({"NSYS_PROFILING_SESSION_ID": "7"}, State.WARNING),
        ({"CUDA_INJECTION64_PATH": ""}, State.PASSED),
    ],
)
def test_other_profilers_are_seen(environment, state, tmp_path: Path) -> None:
    """By the variables they leave in the environment."""
    checks = machine_checks(environment, tmp_path / "no driver")

    assert [check.state for check in checks if check.name != "stacks"] == [state]


def test_rights_on_counters_are_read_from_the_driver(tmp_path: Path, monkeypatch) -> None:
    """Root may always; others only where the driver says so."""
    parameters = tmp_path / "params"
    parameters.write_text("Other: 1\nRmProfilingAdminOnly: 1\n")

    states = []
    for user in (0, 1000):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        states.append(machine_checks({"PATH": ""}, parameters)[1].state)

    assert states == [State.PASSED, State.WARNING]


def test_the_nearest_file_is_found(tmp_path: Path) -> None:
    """tfprobe.toml in this directory or the nearest above."""
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    tmp_path.joinpath("tfprobe.toml").touch()
    tmp_path.joinpath("a", "tfprobe.toml").touch()

    assert find_config_file(str(deep)) == str(tmp_path / "a" / "tfprobe.toml")


@pytest.mark.parametrize(
    ("refusal", "state"), [(None, State.PASSED), ("the kernel forbids it", State.WARNING)]
)
def test_what_forbids_to_read_stacks_is_told_beforehand(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refusal: str | None, state: State
) -> None:
    """Where py-spy is there to read them."""
    (tmp_path / "py-spy").write_text("#!/bin/sh\n")
    (tmp_path / "py-spy").chmod(0o755)
    monkeypatch.setattr(ptrace, "refusal", lambda: refusal)

    check = machine_checks({"PATH": str(tmp_path)}, tmp_path / "no driver")[-1]

    assert (check.name, check.state) == ("stacks", state)
    assert (refusal or "`run --stacks` can read") in check.message
