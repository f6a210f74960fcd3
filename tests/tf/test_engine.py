"""Whatever tfprof's own engine is asked about, we answer the same, byte for byte.

TFPROBE_CASES says how many cases to make up; the same number always makes up the same ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings

from tests.tf.differences import differences
from tests.tf.engine import Engine
from tests.tf.laboratory import Laboratory
from tests.tf.profiles import Case, cases, gradient_alone
from tests.tf.requirements import need_python, need_tensorflow

CASES = int(os.environ.get("TFPROBE_CASES", "200"))


@pytest.fixture(scope="module")
def engine(laboratory: Laboratory) -> Iterator[Engine]:
    """The engine of the laboratory's TensorFlow."""
    need_tensorflow(laboratory, (2, 21))
    # One cell is enough: the engine is C++ and the same in all of them.
    need_python(laboratory, (3, 11))
    engine = Engine(laboratory.python)
    yield engine
    engine.close()


@given(case=cases())
@example(case=gradient_alone())
@settings(
    max_examples=CASES,
    database=None,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)
@pytest.mark.timeout(max(400, 2 * CASES))
def test_reports_and_timelines_are_the_engines(engine: Engine, case: Case) -> None:
    """Bodies and messages of all four views, timelines and advice are the same from graph, steps
    and op log, from the profile that the engine writes, and from ours, which it loads.
    """
    assert differences(engine, case) == []
