"""The laboratory for the interpreter TFPROBE_TEST_PYTHON, which has JAX."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tf.laboratory import Laboratory, laboratory_with, mark_real_jobs


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real jobs."""
    mark_real_jobs(items, Path(__file__).parent)


@pytest.fixture(scope="session")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """The laboratory for the interpreter TFPROBE_TEST_PYTHON."""
    yield from laboratory_with("jax", "JAX", tmp_path_factory)
