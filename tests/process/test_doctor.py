"""The doctor asks real interpreters and says what a run there would give."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from tests.process.launching import Ending, Launcher, environment
from tfprobe.launch.doctor import State, checks, diagnose

STATES = {"passed", "warning", "failed"}


@pytest.fixture
def with_tensorflow(launcher: Launcher) -> dict[str, str]:
    """An environment with something that is installed as TensorFlow 2.15.1."""
    launcher.write("site/tensorflow/__init__.py", "__version__ = '2.15.1'\n")
    launcher.write("site/tensorflow-2.15.1.dist-info/METADATA", "")
    launcher.write("site/tensorflow_io-9.0.dist-info/METADATA", "")
    return {"PYTHONPATH": f"{launcher.work}/site"}


def _ask(launcher: Launcher, *python: str | Path, **more) -> tuple[int, dict[str, tuple[str, str]]]:
    ended: Ending = launcher.tfprobe(
        "doctor", "--json", "-o", launcher.output, "--", *python, **more
    )
    document = json.loads(ended.stdout)
    assert document["schema"] == "tfprobe.doctor/1"
    assert document["would_record"] == (ended.status == 0)
    checks = document["checks"]
    assert {check["state"] for check in checks} <= STATES
    assert all(check["action"] for check in checks if check["state"] != "passed")
    return ended.status, {check["name"]: (check["state"], check["message"]) for check in checks}


def test_an_interpreter_with_tensorflow_records(launcher, python, with_tensorflow) -> None:
    """All is well: status 0, and nothing is left behind."""
    status, checks = _ask(launcher, python, "train.py", env=with_tensorflow)

    assert status == 0
    assert {state for state, _ in checks.values()} == {"passed"}
    assert "2.15.1" in checks["tensorflow"][1]
    assert not launcher.output.exists()


@pytest.mark.parametrize(
    ("wrapper", "flags", "words"),
    [
        ((), ("-I",), "-I or -E"),
        ((), ("-E",), "-I or -E"),
        ((), ("-S",), "-S"),
        (("env", "-i"), (), "PYTHONPATH does not reach it"),
        (("env", "PYTHONPATH=/else"), (), "PYTHONPATH does not reach it"),
    ],
)
def test_what_keeps_the_recorder_out_is_named(launcher, python, wrapper, flags, words) -> None:
    """Isolated interpreters and wrappers that drop PYTHONPATH."""
    status, checks = _ask(launcher, *wrapper, python, *flags, "train.py")

    assert status == 1
    assert checks["agent"][0] == "failed"
    assert words in checks["agent"][1]


def test_an_old_python_is_named(launcher, python27) -> None:
    """2.7 runs as ever and is not recorded."""
    status, checks = _ask(launcher, python27)

    assert (status, checks["python"][0]) == (1, "failed")
    assert "2.7" in checks["python"][1]


@pytest.mark.parametrize(
    ("version", "state"), [("1.13.2", "failed"), ("1.15.5", "passed"), ("9.1.0rc1", "warning")]
)
def test_the_version_of_tensorflow_is_judged(launcher, python, version, state) -> None:
    """Too old is not recorded, too new is tried; nothing is imported to find out."""
    launcher.write("site/tensorflow/__init__.py", "raise RuntimeError('imported')\n")
    launcher.write(f"site/tensorflow_cpu-{version}.dist-info/METADATA", "")

    _, checks = _ask(launcher, python, env={"PYTHONPATH": f"{launcher.work}/site"})

    assert checks["tensorflow"][0] == state
    assert version in checks["tensorflow"][1]


def test_deep_imports_tensorflow(launcher, python) -> None:
    """A broken installation shows only then."""
    launcher.write("site/tensorflow/__init__.py", "raise RuntimeError('no libcuda')\n")
    variables = {"PYTHONPATH": f"{launcher.work}/site"}

    ended = launcher.tfprobe("doctor", "--deep", "--", python, env=variables)

    assert ended.status == 1
    assert "RuntimeError: no libcuda" in ended.stdout.decode()


def test_a_sitecustomize_of_its_own_is_named(launcher, python, with_tensorflow) -> None:
    """It is no obstacle: ours runs it."""
    launcher.write("site/sitecustomize.py", "import sys\n")

    status, checks = _ask(launcher, python, env=with_tensorflow)

    assert (status, checks["sitecustomize"][0]) == (0, "passed")


@pytest.mark.parametrize(
    ("variables", "name", "state"),
    [
        ({"TFPROBE_DISABLE": "1"}, "switch", "failed"),
        ({"TFPROBE_EVERY": "often"}, "settings", "failed"),
        ({"TF_DISABLE_PROFILING": "1"}, "profiler", "warning"),
        ({"NSYS_PROFILING_SESSION_ID": "1"}, "profiler", "warning"),
    ],
)
def test_variables_in_the_way_are_named(launcher, python, variables, name, state) -> None:
    """With what to do about them."""
    _, checks = _ask(launcher, python, env=variables)

    assert checks[name][0] == state


def test_an_unwritable_output_is_named(launcher, python) -> None:
    """The same words as a run would say."""
    ended = launcher.tfprobe("doctor", "-o", "/proc/runs", "--", python)

    assert ended.status == 1
    assert "✗ cannot record to /proc/runs" in ended.stdout.decode()


def test_no_such_interpreter(launcher) -> None:
    """What cannot be started cannot be asked."""
    status, checks = _ask(launcher, "/no/such/python3")

    assert (status, checks["python"][0]) == (1, "failed")


def test_a_job_that_is_no_python_is_a_question_not_understood(launcher) -> None:
    """Status 2: only the job itself could tell what it starts."""
    assert launcher.tfprobe("doctor", "--", "bash", "job.sh").status == 2


def test_extras_that_are_not_installed_are_named(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With how to get them; a job is recorded without any of them."""

    def lacking(package: str) -> None:
        if package in ("grpcio", "viztracer"):
            raise PackageNotFoundError(package)

    monkeypatch.setattr(checks, "distribution", lacking)

    diagnosis = diagnose(
        (sys.executable,),
        flags={"output": str(launcher.output)},
        environment=environment({}),
        cwd=str(launcher.work),
    )

    (check,) = (check for check in diagnosis.checks if check.name == "extras")
    assert check.state is State.PASSED
    assert check.message == (
        "Extras not installed: capture, perfetto; "
        "`pip install 'tfprobe[all]'` installs all of them."
    )
