"""The laboratory for the interpreter TFPROBE_TEST_PYTHON, which has PyTorch."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tf.laboratory import Laboratory, environment_of_a_job


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real jobs: they take seconds, and tests of one job share its outcomes."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.tf)
            item.add_marker(pytest.mark.timeout(900))
            job = getattr(item, "callspec", None)
            name = job.params.get("name") if job is not None else None
            item.add_marker(pytest.mark.xdist_group(name or item.path.stem))


@pytest.fixture(scope="session")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """The laboratory for the interpreter TFPROBE_TEST_PYTHON."""
    python = os.environ.get("TFPROBE_TEST_PYTHON")
    if not python:
        pytest.skip("TFPROBE_TEST_PYTHON names no interpreter with PyTorch; see `make matrix`")
    answer = subprocess.run(
        [python, "-c", "import torch; print(torch.__version__)"],
        stdout=subprocess.PIPE,
        check=True,
        env=environment_of_a_job({}),
        text=True,
    )
    version = tuple(int(part) for part in answer.stdout.split(".")[:2])
    folder = tmp_path_factory.mktemp("torch")
    laboratory = Laboratory(python, version, folder)
    yield laboratory
    laboratory.close()
