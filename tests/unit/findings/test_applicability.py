"""What a recording says decides which fixes are tried; what it does not say decides nothing."""

from __future__ import annotations

import pytest

from tests.support.profiles import process
from tfprobe.errors import Missing
from tfprobe.findings.applicability import RecordedJob, divided, reasons, recorded_job, why_not
from tfprobe.findings.fixes import FIXES, chosen

EAGER = {"eager": False, "run_eagerly": None}
PRIVATE = {"environment": {"TF_GPU_THREAD_MODE": "gpu_private"}}
UNLAID = {"optimizer": {"layout_optimizer": False}}
CPU, GPU = "/device:CPU:0", "/device:GPU:0"


def job(*kinds: str, settings=None, frameworks=("tensorflow",), **facts) -> RecordedJob:
    noted = () if settings is None else (settings,)
    return RecordedJob(frameworks, frozenset(kinds), noted, **facts)


@pytest.mark.parametrize(
    ("fix", "of", "why"),
    [
        ("run_eagerly_off", job("eager", settings=EAGER), "neither run_eagerly nor"),
        ("run_eagerly_off", job("fit", settings=EAGER), "neither run_eagerly nor"),
        ("function_step", job("fit"), "no loop of kind eager was recorded"),
        ("function_step", job("eager", settings={"eager": True}), "run_functions_eagerly"),
        (
            "predict_direct",
            job("fit", "evaluate", frameworks=("keras",)),
            "no loop of kind predict",
        ),
        (
            "steps_per_execution",
            job("session_run", frameworks=("keras",)),
            "kind fit, evaluate or",
        ),
        ("jit_compile", job("eager", compiles=False), "neither a Keras model nor a tf.function"),
        ("jit_compile", job("fit", settings={"run_eagerly": True}), "the model runs eagerly"),
        ("fused_optimizer", job("forward", frameworks=("torch",)), "kind optimizer_step"),
        ("pin_memory", job("forward", frameworks=("torch",), has_accelerator=False), "accelerator"),
        ("gpu_threads", job("fit", has_accelerator=False), "accelerator"),
        ("gpu_threads", job("fit", settings=PRIVATE), "TF_GPU_THREAD_MODE=gpu_private is set"),
        ("layout_optimizer", job("fit", settings={"optimizer": {}}), "has not switched"),
        ("prefetch", job("jit", frameworks=("jax",)), "TensorFlow and Keras, and the job uses JAX"),
    ],
)
def test_what_can_change_nothing_is_known_before_anything_runs(fix, of, why) -> None:
    """With a reason that names what the recording lacks."""
    assert why in str(why_not(chosen(fix), of))


@pytest.mark.parametrize(
    ("fix", "of"),
    [
        ("run_eagerly_off", job("fit", settings={"eager": False, "run_eagerly": True})),
        ("run_eagerly_off", job("function", settings={"eager": True, "run_eagerly": None})),
        # The settings are those of one step, which need not be one of Keras.
        ("run_eagerly_off", job("eager", "fit", settings=EAGER)),
        ("run_eagerly_off", job("eager")),
        ("run_eagerly_off", job("fit", settings={"xla_flags": ""}, frameworks=("keras", "jax"))),
        ("function_step", job("eager", settings=EAGER)),
        ("predict_direct", job("fit", "predict", frameworks=("keras",))),
        ("jit_compile", job("eager", compiles=True)),
        ("jit_compile", job("eager")),
        ("jit_compile", job("function", settings=EAGER, compiles=False)),
        ("pin_memory", job("optimizer_step", frameworks=("torch",))),
        ("pin_memory", job("optimizer_step", frameworks=("torch",), has_accelerator=True)),
        ("threads", job("session_run")),
        ("gpu_threads", job("fit", settings={"environment": {}}, has_accelerator=True)),
        ("layout_optimizer", job("fit", settings=UNLAID, has_accelerator=True)),
        ("layout_optimizer", job("session_run", has_accelerator=True)),
        ("donate_arguments", job("jit", frameworks=("jax",))),
    ],
)
def test_what_may_change_something_is_tried(fix, of) -> None:
    """And so is what the recording does not tell."""
    assert why_not(chosen(fix), of) is None


def test_nothing_is_left_out_where_nothing_is_known() -> None:
    """As for a job that was never recorded."""
    offered = [chosen(fix.id) for fix in FIXES if fix.id != "allocator"]

    assert reasons(offered, RecordedJob()) == {}


def test_an_allocator_needs_a_library() -> None:
    """Which the machine has or not, whatever the job is."""
    words = ("allocator", "allocator=/l.so")

    tried, ((none, why),) = divided([chosen(word) for word in words], RecordedJob())

    assert none.text == "allocator"
    assert why == "neither tcmalloc nor jemalloc was found on this machine"
    assert [one.text for one in tried] == ["allocator=/l.so"]


def test_a_recording_tells_frameworks_loops_switches_and_devices() -> None:
    """Of all its processes."""
    processes = [
        process(devices=(CPU,), settings=EAGER),
        process(index=1, tensorflow=Missing("none"), torch="2.13.0", devices=(CPU, GPU)),
    ]

    found = recorded_job(processes, ["fit", "forward"], [Missing("no steps")])

    assert found.frameworks == ("keras", "tensorflow", "torch")
    assert found.kinds == {"fit", "forward"}
    assert found.settings == (EAGER,)
    assert found.has_accelerator is True
    assert found.compiles is None
    assert recorded_job([process()], [], []).has_accelerator is None
    assert recorded_job([process(devices=(CPU,))], [], []).has_accelerator is False


def test_fixes_are_divided_in_their_order() -> None:
    """What is named is not tried either where it can change nothing."""
    named = [chosen(word) for word in ("threads=2", "predict_direct", "jit_compile")]

    tried, others = divided(named, job("fit", frameworks=("keras", "tensorflow")))

    assert [one.text for one in tried] == ["threads=2", "jit_compile"]
    assert [one.text for one, _ in others] == ["predict_direct"]
