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


def _install(launcher: Launcher, **versions: str) -> dict[str, str]:
    """Install packages in these versions that do nothing."""
    for name, version in versions.items():
        launcher.write(f"site/{name}/__init__.py", f"__version__ = {version!r}\n")
        launcher.write(f"site/{name}-{version}.dist-info/METADATA", "")
    return {"PYTHONPATH": f"{launcher.work}/site", "HOME": str(launcher.work)}


def test_an_interpreter_without_a_framework_is_named(launcher, python) -> None:
    """There is nothing to record in it."""
    status, checks = _ask(launcher, python, env={"PYTHONPATH": ""})

    assert (status, checks["frameworks"][0]) == (1, "failed")


def test_jax_alone_is_recorded(launcher, python) -> None:
    """TensorFlow need not be there."""
    variables = _install(launcher, jax="0.10.2", jaxlib="0.10.2")

    status, checks = _ask(launcher, python, env=variables)

    assert (status, checks["jax"][0]) == (0, "passed")


@pytest.mark.parametrize(
    ("versions", "variables", "words"),
    [
        (("0.5.3", "0.5.3"), {}, "jaxlib before 0.6"),
        (("0.10.2", "0.10.2"), {"TFPROBE_TRACE_LEVEL": "software"}, "--trace-level software"),
        (("0.10.2", "0.10.2"), {"JAX_ENABLE_PGLE": "true"}, "JAX_ENABLE_PGLE"),
        (("0.4.20", "0.4.20"), {}, "older than the versions tested"),
        (("1.0.0", "1.0.0"), {}, "newer than the versions tested"),
    ],
)
def test_what_is_not_traced_of_jax_has_its_reason(
    launcher, python, versions, variables, words
) -> None:
    """Its steps are counted, which is a recording."""
    installed = _install(launcher, jax=versions[0], jaxlib=versions[1])

    status, checks = _ask(launcher, python, env={**installed, **variables})

    assert (status, checks["jax"][0]) == (0, "warning")
    assert words in checks["jax"][1]


@pytest.mark.parametrize(
    ("version", "variables", "state", "words"),
    [
        ("2.1.2", {}, "passed", "PyTorch 2.1.2 at "),
        ("2.13.0+cpu", {}, "passed", "PyTorch 2.13.0+cpu at "),
        ("2.14.1", {}, "passed", "PyTorch 2.14.1 at "),
        ("2.0.1", {}, "warning", "older than the versions tested"),
        ("2.15.0", {}, "warning", "newer than the versions tested"),
        ("2.13.0", {"TFPROBE_TRACE_LEVEL": "software"}, "warning", "--trace-level software"),
        ("2.13.0", {"KINETO_USE_DAEMON": "1"}, "warning", "not traced: KINETO_USE_DAEMON"),
        ("2.13.0", {"NSYS_PROFILING_SESSION_ID": "7"}, "warning", "Nsight Systems may use"),
    ],
)
def test_pytorch_alone_is_recorded_and_what_is_not_traced_has_its_reason(
    launcher, python, version, variables, state, words
) -> None:
    """Its steps are counted in any case, which is a recording."""
    installed = _install(launcher, torch=version)

    status, checks = _ask(launcher, python, env={**installed, **variables})

    assert (status, checks["torch"][0]) == (0, state)
    assert words in checks["torch"][1]


def test_keras_on_pytorch_is_recorded(launcher, python) -> None:
    """Keras 3 computes with it by KERAS_BACKEND."""
    variables = _install(launcher, torch="2.13.0", keras="3.15.1")

    status, checks = _ask(launcher, python, env={**variables, "KERAS_BACKEND": "torch"})

    assert (status, checks["keras"][0]) == (0, "passed")
    assert "computes with PyTorch" in checks["keras"][1]


def test_a_framework_that_fails_beside_another_is_a_warning(launcher, python) -> None:
    """A job of the other one is recorded."""
    variables = _install(launcher, tensorflow="2.15.1", jax="0.10.2")

    status, checks = _ask(launcher, python, env=variables)

    assert status == 0
    assert (checks["tensorflow"][0], checks["jax"][0]) == ("passed", "warning")


def test_jax_without_jaxlib_is_named(launcher, python) -> None:
    """It does not import."""
    status, checks = _ask(launcher, python, env=_install(launcher, jax="0.10.2"))

    assert (status, checks["jax"][0]) == (1, "failed")
    assert "no jaxlib" in checks["jax"][1]


@pytest.mark.parametrize(
    ("version", "backend", "state", "words"),
    [
        ("2.15.0", "torch", "passed", "computes with TensorFlow"),
        ("3.15.1", "tensorflow", "passed", "computes with TensorFlow"),
        ("3.15.1", "jax", "warning", "computes with JAX, of which nothing would be recorded"),
        ("3.15.1", "torch", "warning", "computes with PyTorch, of which nothing would be recorded"),
        ("3.15.1", "openvino", "warning", "computes with openvino, of which nothing is recorded"),
    ],
)
def test_keras_is_recorded_as_what_it_computes_with(
    launcher, python, version, backend, state, words
) -> None:
    """Keras 3 chooses by KERAS_BACKEND; Keras 2 has TensorFlow alone."""
    variables = _install(launcher, tensorflow="2.15.1", keras=version)

    status, checks = _ask(launcher, python, env={**variables, "KERAS_BACKEND": backend})

    assert (status, checks["keras"][0]) == (0, state)
    assert words in checks["keras"][1]


def test_the_backend_of_keras_may_come_from_its_file(launcher, python) -> None:
    """As Keras reads it, in ~/.keras/keras.json."""
    variables = _install(launcher, keras="3.15.1", jax="0.12.0", jaxlib="0.12.0")
    launcher.write(".keras/keras.json", '{"backend": "jax"}')

    _, checks = _ask(launcher, python, env=variables)

    assert checks["keras"][0] == "passed"
    assert "computes with JAX" in checks["keras"][1]


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
