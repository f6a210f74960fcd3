"""What the advice names exists in the TensorFlow that it is given to."""

from __future__ import annotations

import json

from tests.tf.laboratory import Laboratory
from tfprobe.analysis.core.releases import (
    PARALLEL_BATCH,
    RENAMED,
    STEPS_PER_EXECUTION,
    in_names_of,
    is_before,
)

# TensorFlow 1.14 cannot compile a function by XLA under any name; there only accelerators are told
# of it, which tells of TF_XLA_FLAGS first.
NOT_THERE = {((1, 14), "jit_compile=True")}


def test_names_of_the_advice_exist(laboratory: Laboratory) -> None:
    """Under the name of today or the one before, as the release has it."""
    names = json.loads(laboratory.start("names.py").outcome().stdout)
    release = laboratory.tensorflow

    for _, today, _ in RENAMED:
        if (release, today) not in NOT_THERE:
            assert names[in_names_of(release, today)], today
    assert names["steps_per_execution"] == (not is_before(release, STEPS_PER_EXECUTION))
    assert names["batch"] == (not is_before(release, PARALLEL_BATCH))
