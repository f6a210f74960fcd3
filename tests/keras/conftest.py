"""The laboratory for the interpreter TFPROBE_TEST_PYTHON, which has Keras 3 and JAX."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jax.conftest import laboratory as laboratory


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real jobs: they take seconds, and tests of one job share its outcomes."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.tf)
            item.add_marker(pytest.mark.timeout(900))
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
