"""The laboratory for the interpreter TFPROBE_TEST_PYTHON, and a longer leash for tests that start
TensorFlow.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tf.doors import Job
from tests.tf.laboratory import Laboratory, environment_of_a_job

# Modules whose tests share what a fixture of the module has started.
SHARING = (
    "test_activities",
    "test_distributed",
    "test_fixes",
    "test_float_ops",
    "test_input",
    "test_tfprof_context",
    "test_tfprof_interface",
    "test_transfers",
)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """TensorFlow alone takes seconds to import, and several jobs run at once. Tests that ask about
    one job follow each other in one process: the laboratory of another would run it again.
    """
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.tf)
            item.add_marker(pytest.mark.timeout(900))
            job = _job_of(item)
            if job:
                item.add_marker(pytest.mark.xdist_group(job))


def _job_of(item: pytest.Item) -> str | None:
    """Name the job whose outcomes a test shares with others."""
    if item.path.stem in SHARING:
        return item.path.stem
    job = getattr(item, "callspec", None) and item.callspec.params.get("job")  # type: ignore[attr-defined]
    if job is None:
        return None
    command = job.command if isinstance(job, Job) else job
    return " ".join(command)


@pytest.fixture(scope="session")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """The laboratory for the interpreter TFPROBE_TEST_PYTHON."""
    python = os.environ.get("TFPROBE_TEST_PYTHON")
    if not python:
        pytest.skip("TFPROBE_TEST_PYTHON names no interpreter with TensorFlow; see `make matrix`")
    ask = "import tensorflow; print(tensorflow.__version__)"
    answer = subprocess.run(
        [python, "-W", "ignore", "-c", ask],
        stdout=subprocess.PIPE,
        check=True,
        env=environment_of_a_job({}),
        text=True,
    )
    version = tuple(int(part) for part in answer.stdout.split()[-1].split(".")[:2])
    laboratory = Laboratory(python, version, tmp_path_factory.mktemp("tf"))
    yield laboratory
    laboratory.close()
