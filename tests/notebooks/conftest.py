"""The interpreter TFPROBE_TEST_PYTHON, which has Jupyter's kernels and front ends, and JAX."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real kernels: they take seconds, and tests of one job share its outcome."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.tf)
            item.add_marker(pytest.mark.timeout(600))
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="session")
def python() -> str:
    """The interpreter of the kernels and their front ends."""
    found = os.environ.get("TFPROBE_TEST_PYTHON")
    if not found:
        pytest.skip("TFPROBE_TEST_PYTHON names no interpreter with Jupyter; see `make matrix`")
    return found
