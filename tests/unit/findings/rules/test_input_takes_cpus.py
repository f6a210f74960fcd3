"""An input that is never late and computes on the CPUs of the steps is told by its ops."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.subjects import (
    MS,
    STEPS,
    found,
    gpu_ops,
    loop,
    machine,
    ops,
    parts,
    process,
    use,
)
from tfprobe.analysis.input.step_input import StepInput
from tfprobe.analysis.system.thread_times import StepThreads
from tfprobe.errors import Missing
from tfprobe.findings.finding import Finding, Severity

FEW = {"cpus": 2.0, "used_cpus": 1.9}
INPUT = StepInput(
    bottleneck="ParallelMapV2",
    own_ns=0.0,
    iterator="Root::ParallelMapV2",
    nodes=("Prefetch", "ParallelMap", "TensorSlice"),
    source="train.py:29",
)


def computing(concurrent_ms: float, busy_ms: float | None = None, **changes: Any) -> dict[str, Any]:
    """Return a step of 8 ms beside which ops of the input ran for so long."""
    return {
        "concurrent": (use("MatMul", concurrent_ms),),
        "concurrent_ns": concurrent_ms * MS,
        "concurrent_busy_ns": (concurrent_ms if busy_ms is None else busy_ms) * MS,
        **changes,
    }


def find(concurrent_ms: float = 4.0, used: dict[str, Any] = FEW, **changes: Any) -> Finding | None:
    facts = {
        "ops": ops(**computing(concurrent_ms)),
        "parts": parts(input_wait=0.04),
        "process": process(machine=machine(**used)),
        "input": INPUT,
        **changes,
    }
    return found("input_takes_cpus", loop(**facts))


def test_ops_beside_a_step_that_computes_are_told() -> None:
    """The bound is the time in which one ran, as if the step stood still for it."""
    finding = find()

    assert finding is not None
    assert finding.severity is Severity.CRITICAL
    assert finding.gain.high_ns == STEPS * 4 * MS
    assert (
        finding.evidence[0].text
        == "ops of ParallelMapV2 that run alongside the step (MatMul), per step"
    )
    assert finding.evidence[0].source == "train.py:29"


def test_a_tenth_of_the_loop_is_told_and_less_is_not() -> None:
    """Of 10 ms a cycle."""
    assert find(1.0) is not None
    assert find(0.99) is None


def test_where_cpus_are_left_the_input_takes_none() -> None:
    """Seven tenths of the CPUs are busy where steps compute on all of them."""
    assert find(used={"cpus": 2.0, "used_cpus": 1.4}) is not None
    assert find(used={"cpus": 2.0, "used_cpus": 1.39}) is None
    assert find(used={"cpus": Missing("unknown"), "used_cpus": 1.9}) is None


@pytest.mark.parametrize(("used_cpus", "is_found"), [(0.7, True), (0.69, False)])
def test_where_the_steps_wait_for_a_cpu_it_is_of_those_to_have(
    used_cpus: float, is_found: bool
) -> None:
    """The thread of the steps had half of the CPU time that it wanted."""
    used = {"cpus": 2.0, "used_cpus": used_cpus}
    waiting = StepThreads(0.2, 0.2, is_alone=True, others=())
    loaded = process(machine=machine(**used), threads=waiting)

    assert (find(process=loaded) is not None) is is_found


def test_of_many_cpus_an_op_takes_two_at_most() -> None:
    """One decoder beside a step on 16 CPUs costs an eighth of the time in which it runs."""
    finding = find(8.0, used={"cpus": 16.0, "used_cpus": 15.0})

    assert finding is not None
    assert finding.gain.high_ns == STEPS * MS


def test_an_input_that_steps_wait_for_is_another_finding() -> None:
    """Unless it was ready, and only changed hands."""
    waiting = parts(input_wait=0.2)
    ready = StepInput("ParallelMapV2", 0.0, "Root", ("Prefetch",), keeps_up=True)

    assert find(parts=waiting) is None
    assert find(parts=waiting, input=ready) is not None


def test_steps_of_an_accelerator_leave_the_cpus_to_the_input() -> None:
    """That is what they are there for."""
    assert find(ops=gpu_ops(**computing(4.0))) is None


def test_steps_that_do_not_compute_have_no_use_for_cpus() -> None:
    """The bound is no more than what they compute."""
    finding = find(parts=parts(feed=0.04, checkpoints=0.81))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.15


@pytest.mark.parametrize(
    ("nodes", "may_cache", "advised"),
    [
        (("ParallelMap", "TensorSlice"), True, True),
        (("ParallelMap", "Repeat", "TensorSlice"), False, True),
        (("ParallelMap", "Generator"), False, False),
        (("ParallelMap", "Range"), False, False),
    ],
    ids=["ends", "repeats", "generator", "endless"],
)
def test_a_cache_is_advised_of_what_ends(nodes, may_cache: bool, advised: bool) -> None:
    """What is repeated ends below the repetition."""
    finding = find(input=StepInput("ParallelMapV2", 0.0, "Root", nodes, may_cache=may_cache))

    assert finding is not None
    assert (".cache()" in finding.action) is advised


def test_without_samples_it_is_not_checked() -> None:
    """Neither of the step nor of the machine."""
    assert find(ops=Missing("no step was traced")) is None
    assert find(process=process(machine=Missing("no second look"))) is None


@pytest.mark.parametrize(("wait", "is_found"), [(0.09, True), (0.11, False)])
def test_where_steps_wait_for_a_good_part_of_it_that_is_the_cause(
    wait: float, is_found: bool
) -> None:
    """From a quarter of what the ops beside the step may hold up, which is 40 % of the cycle."""
    assert (find(parts=parts(input_wait=wait)) is not None) is is_found
