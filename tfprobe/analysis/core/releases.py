"""Word advice in the API names of the job's TensorFlow release: names have changed since 1.14.

Names and releases were looked up in TensorFlow 1.14, 1.15, 2.4, 2.12, 2.15 and 2.21, and tests/tf
checks them with each TensorFlow of the matrix.
"""

from __future__ import annotations

import re

from tfprobe.errors import Missing

# The first two numbers of a version.
Release = tuple[int, int]

# The first release with today's name, today's name, and the older name.
RENAMED: tuple[tuple[Release, str, str], ...] = (
    ((2, 3), "tf.config.run_functions_eagerly", "tf.config.experimental_run_functions_eagerly"),
    ((2, 4), "tf.data.AUTOTUNE", "tf.data.experimental.AUTOTUNE"),
    ((2, 5), "jit_compile=True", "experimental_compile=True"),
    ((2, 9), "reduce_retracing=True", "experimental_relax_shapes=True"),
)
# The first releases with Keras models that run several steps per call, and with parallel batches.
STEPS_PER_EXECUTION: Release = (2, 4)
PARALLEL_BATCH: Release = (2, 5)
_PARALLEL_BATCH = "batch(..., num_parallel_calls=tf.data.AUTOTUNE) makes several batches at once"
_WITHOUT_IT = "larger elements, or a map that makes whole batches, leave less to copy"
_RELEASE = re.compile(r"(\d+)\.(\d+)")


def release_of(version: str | Missing) -> Release | Missing:
    """Return the release of a version such as "2.21.0-rc1"."""
    if isinstance(version, Missing):
        return version
    numbers = _RELEASE.match(version)
    if numbers is None:
        return Missing(f"{version} is no version of TensorFlow")
    return int(numbers[1]), int(numbers[2])


def is_before(release: Release | Missing, first: Release) -> bool:
    """Return whether a release is known to be older than another."""
    return not isinstance(release, Missing) and release < first


def in_names_of(release: Release | Missing, text: str) -> str:
    """Return advice in the names of a release; for an unknown one, in today's names."""
    if is_before(release, PARALLEL_BATCH):
        text = text.replace(_PARALLEL_BATCH, _WITHOUT_IT)
    for first, today, before in RENAMED:
        if is_before(release, first):
            text = text.replace(today, before)
    return text
