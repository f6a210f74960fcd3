"""The laboratory for the interpreter TFPROBE_TEST_PYTHON, which has Keras 3 and JAX."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jax.conftest import laboratory as laboratory
from tests.tf.laboratory import mark_real_jobs


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real jobs."""
    mark_real_jobs(items, Path(__file__).parent)
