"""The scripts in examples/ run as they are, recorded, and their steps are in the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tf.laboratory import Laboratory
from tests.tf.requirements import need_tensorflow

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STEPS = 20

SCRIPTS = {
    # script: kind of its steps, first and last TensorFlow, how many processes take them
    "mnist_softmax_session.py": ("session_run", (1, 14), (2, 99), 1),
    "keras_fit.py": ("fit", (1, 14), (2, 99), 1),
    "custom_loop.py": ("function", (2, 0), (2, 99), 1),
    "estimator.py": ("session_run", (1, 14), (2, 15), 1),
    "two_workers.py": ("function", (2, 4), (2, 99), 2),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_examples_print_the_same_and_are_counted(laboratory: Laboratory, script: str) -> None:
    """Each example prints the same loss recorded and bare, and the report has its steps."""
    kind, first, last, workers = SCRIPTS[script]
    need_tensorflow(laboratory, first, last)
    arguments = (str(EXAMPLES / script), "--steps", str(STEPS))

    bare = laboratory.start(*arguments).outcome()
    recorded = laboratory.start(*arguments, record=[]).outcome()

    assert bare.stdout.decode() == recorded.stdout.decode(), recorded.stderr[-3000:]
    assert bare.status == recorded.status == 0
    counts = [work["count"] for work in recorded.work if work["kind"] == kind]
    assert counts.count(STEPS) >= workers, recorded.work
