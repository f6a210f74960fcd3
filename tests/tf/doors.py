"""The jobs that go through every door, the TensorFlow versions they run on, and the facts each
one states.
"""

from __future__ import annotations

from typing import NamedTuple

KERAS = (
    "fit",
    "validation_inside_fit",
    "evaluate",
    "predict",
    "train_on_batch",
    "test_on_batch",
    "predict_on_batch",
    "no_fit_in_on_batch",
    "fit_overridden",
)
KERAS_EAGER = (
    *KERAS,
    "steps_per_execution",
    "custom_train_step",
    "run_eagerly",
    "no_eager_in_fit",
    "fit_from_dataset",
)

ALWAYS = ((1, 14), (2, 99))


class Job(NamedTuple):
    """One job script with its arguments."""

    id: str
    command: tuple[str, ...]
    facts: tuple[str, ...]
    # First and last TensorFlow it runs on.
    versions: tuple[tuple[int, int], tuple[int, int]] = ALWAYS
    # Distribution the job imports beside TensorFlow, and the name it is imported by.
    needs: str = ""


JOBS = (
    Job(
        "session",
        ("session_doors.py",),
        (
            "main_loop",
            "threads",
            "callable_with_feeds",
            "callable_without_feeds",
            "callable_from_options",
            "until_out_of_range",
            "monitored_session",
        ),
    ),
    Job("keras-1", ("keras_doors.py", "tf.keras"), KERAS, ((1, 14), (1, 15))),
    Job(
        "keras-1-eager",
        ("keras_doors.py", "tf.keras-eager"),
        (*KERAS, "fit_from_dataset"),
        ((1, 15), (1, 15)),
    ),
    Job("keras", ("keras_doors.py", "tf.keras"), KERAS_EAGER, ((2, 0), (2, 99))),
    Job("keras-graph", ("keras_doors.py", "tf.keras-graph"), KERAS, ((2, 0), (2, 15))),
    Job("keras-standalone", ("keras_doors.py", "keras"), KERAS, ((1, 14), (1, 15)), needs="keras"),
    Job(
        "tf_keras",
        ("keras_doors.py", "tf_keras"),
        KERAS_EAGER,
        ((2, 16), (2, 99)),
        needs="tf_keras",
    ),
    Job(
        "tf_keras-graph",
        ("keras_doors.py", "tf_keras-graph"),
        KERAS,
        ((2, 16), (2, 99)),
        needs="tf_keras",
    ),
    Job(
        "function",
        ("function_doors.py",),
        (
            "function_loop",
            "nested_outer",
            "nested_inner",
            "concrete_function",
            "function_in_threads",
            "method",
            "raising_function",
            "eager_loop",
            "eager_loop_v1_optimizer",
            "eager_by_hand",
            "optimizer_in_function",
            "no_eager_in_function",
            "restored_function",
        ),
    ),
    Job("estimator", ("estimator_doors.py",), ("train", "predict"), ((1, 14), (2, 15))),
)
