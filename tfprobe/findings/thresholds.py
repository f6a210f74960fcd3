"""All numbers that rules compare with: default, unit, and the reason for the default."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tfprobe.errors import Missing, UsageError
from tfprobe.findings.finding import Gain, Severity

_NEAREST = 3
# Endings of the names of thresholds that are counts.
_COUNTS = ("_least", "_bytes")


def _setting(default: float, unit: str, why: str) -> Any:
    """Return a field with its unit and its reason. Any: what dataclasses.field returns."""
    return field(default=default, metadata={"unit": unit, "why": why})


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Names end with their unit: `_ratio` is 0..1, of the time of the loop unless stated otherwise.

    A rule fires at or above its threshold.
    """

    accelerator_idle_ratio: float = _setting(
        0.5, "ratio of a step", "below half busy torch_tb and tfprof call a device little used"
    )
    between_ratio: float = _setting(
        0.1, "ratio", "less than a tenth is not worth another way to run steps"
    )
    busy_cpus_ratio: float = _setting(
        0.7, "ratio of CPUs", "steps that compute on all CPUs kept 0.75 to 0.8 of two busy"
    )
    callbacks_ratio: float = _setting(
        0.05, "ratio", "as for input: XProf calls 5 % of a step moderate"
    )
    checkpoint_ratio: float = _setting(0.05, "ratio", "as for input")
    collectives_ratio: float = _setting(
        0.1, "ratio of a step", "torch_tb's for communication; XProf's are 3 % and 15 %"
    )
    copies_least: float = _setting(
        50, "copies a step", "some tens of feeds and results are usual, more are a loop over them"
    )
    copies_ratio: float = _setting(0.03, "ratio of a step", "XProf's lower mark of small parts")
    copy_bytes: float = _setting(
        65_536, "bytes a copy", "below, a copy costs its start of some 10 us rather than its bytes"
    )
    cpu_wait_ratio: float = _setting(
        0.1, "ratio", "on a shared machine, a thread loses as much to others now and then"
    )
    critical_ratio: float = _setting(
        0.15, "ratio, gain by the rule's share", "about an hour of a working day's training"
    )
    collection_ratio: float = _setting(
        0.05, "ratio of wall time", "as for input; what imports collect is not counted"
    )
    dense_ratio: float = _setting(0.05, "ratio", "as for input")
    donation_bytes: float = _setting(
        67_108_864, "bytes", "less than 64 MiB is not what fills a device"
    )
    donation_ratio: float = _setting(
        0.2, "ratio of the program's memory", "a fifth more is a larger batch"
    )
    double_ratio: float = _setting(0.05, "ratio", "as for input")
    eager_ratio: float = _setting(
        0.1, "ratio of a step outside ops", "XProf tells of eager ops from 10 % of op time"
    )
    epoch_ends_ratio: float = _setting(0.05, "ratio of wall time", "as for input")
    evaluation_ratio: float = _setting(
        0.1, "ratio", "to know how well it does is worth some of the time"
    )
    expensive_ratio: float = _setting(
        0.2, "ratio of a step", "what is cheaper cannot make a step a quarter faster"
    )
    few_threads_per_cpu: float = _setting(
        0.5, "threads a CPU", "more are near enough to one a CPU to be meant"
    )
    fusible_ratio: float = _setting(
        0.15, "ratio of a step", "XLA fuses these; compiling is not worth less"
    )
    gil_cpus: float = _setting(
        0.5, "CPUs", "a thread that computes half of the time has the lock when it is asked for"
    )
    gil_ratio: float = _setting(0.05, "ratio", "as for input")
    graph_breaks_ratio: float = _setting(
        0.05, "ratio", "a break costs a few 10 us: less is idle around each step in any case"
    )
    graph_steps_least: float = _setting(
        20, "steps", "fewer are an initialisation, a restore, and some looks at variables"
    )
    growth_ratio: float = _setting(
        0.1, "ratio of resident memory", "SageMaker's GPUMemoryIncrease: 10 %"
    )
    growth_bytes: float = _setting(
        33_554_432, "bytes", "allocators keep some; below 32 MiB it is not told from that"
    )
    host_op_ratio: float = _setting(
        0.05, "ratio of a step", "an op on the host that the accelerator waits for"
    )
    input_cpus_ratio: float = _setting(
        0.1, "ratio", "less is lost among what ops of the step take from each other"
    )
    input_ratio: float = _setting(0.05, "ratio of a step", "XProf: moderately input-bound from 5 %")
    last_ratio: float = _setting(
        0.6, "ratio of collectives", "of two equal ranks each comes last to about half"
    )
    launch_ratio: float = _setting(
        0.15, "ratio of a step", "XProf's upper mark for kernel launch; its lower one is 3 %"
    )
    layout_ratio: float = _setting(
        0.05, "ratio of a step", "transposes that another data format does without"
    )
    memory_full_ratio: float = _setting(0.9, "ratio of memory", "torch_tb's mark of a full GPU")
    memory_unused_ratio: float = _setting(
        0.3, "ratio of memory", "three times the batch would still fit"
    )
    narrow_ratio: float = _setting(
        0.1, "ratio of device compute", "XProf: below 10 % in 16 bits it suggests mixed precision"
    )
    one_hot_ratio: float = _setting(0.05, "ratio", "as for input")
    outlier_ratio: float = _setting(0.05, "ratio", "as for input")
    overhead_ratio: float = _setting(
        0.03, "ratio of wall time", "three times the default budget of recording, 1 %"
    )
    own_profiler_ratio: float = _setting(
        0.2, "ratio of wall time", "a profile of some steps is wanted, and soon over"
    )
    pageable_ratio: float = _setting(0.03, "ratio of a step", "XProf's lower mark of small parts")
    python_ratio: float = _setting(0.05, "ratio", "as for input")
    python_us: float = _setting(
        100, "us", "a loop of Python needs some us around each step, whatever it does"
    )
    preparation_ratio: float = _setting(
        0.2, "ratio of wall time", "a short trial of a job that trains for days begins like it"
    )
    retrace_ratio: float = _setting(0.01, "ratio", "traces are seconds: rare ones count, too")
    retraces_least: float = _setting(
        3, "retraces", "a partial last batch and a second data set are usual"
    )
    run_cost_ratio: float = _setting(
        0.3, "ratio", "below, there is more to win within the run than around it"
    )
    runs_least: float = _setting(
        3, "runs a turn", "a step and one look at it, or two networks in turn, are usual"
    )
    runs_ratio: float = _setting(0.05, "ratio", "as for input")
    small_step_us: float = _setting(
        10_000, "us", "above, what Python does between steps hides behind the step"
    )
    straggler_ratio: float = _setting(
        0.1, "ratio of a step", "below, ranks change places from step to step"
    )
    switches_per_s: float = _setting(
        20_000,
        "context switches per second",
        "programs with a thread for each CPU took 10,000 at most, 64 threads on 2 CPUs 37,000",
    )
    sync_ratio: float = _setting(
        0.9, "ratio of gaps with a wait", "every step, but for the first and those at epochs' ends"
    )
    sync_wait_ratio: float = _setting(
        0.1, "ratio", "a queue of two steps hides as much of the shorter of host and device"
    )
    threads_per_cpu: float = _setting(
        2, "threads a CPU", "TensorFlow itself makes one; two still hide waiting for memory"
    )
    threads_ratio: float = _setting(0.05, "ratio", "as for input")
    tiny_op_us: float = _setting(10, "us", "below, scheduling an op costs about as much as the op")
    tiny_ops_least: float = _setting(50, "ops a step", "fewer are soon over however they are run")
    tiny_ratio: float = _setting(
        0.3, "ratio of a step", "time in which no op longer than tiny_op_us ran"
    )
    trace_ratio: float = _setting(0.05, "ratio of wall time", "as for input")
    tuned_input_ratio: float = _setting(
        0.02, "ratio of a step", "below, a pipeline without prefetch or cache costs nothing"
    )
    turns_least: float = _setting(20, "turns per step", "a loop of fewer is soon over")
    turns_ratio: float = _setting(0.1, "ratio", "less is not worth another way to compute it")
    update_ratio: float = _setting(0.05, "ratio", "as for input")
    wall_ratio: float = _setting(
        0.03, "ratio of wall time", "of the whole process less is not worth a change"
    )
    warning_ratio: float = _setting(
        0.03, "ratio, gain by the rule's share", "less is lost among runs on shared machines"
    )

    def severity(self, gain: Gain) -> Severity:
        """Return the severity of a finding by the gain that the rule's own share makes likely."""
        if gain.low_ratio >= self.critical_ratio:
            return Severity.CRITICAL
        return Severity.WARNING if gain.low_ratio >= self.warning_ratio else Severity.INFO


DEFAULTS = Thresholds()


@dataclass(frozen=True, slots=True)
class Calibration:
    """Of a class of rules: what followed advice won of its bound, on loops without an accelerator.

    `ratio` is that of the bound, `why` says where it was measured.
    """

    ratio: float
    rules: frozenset[str]
    why: str


# One number for each class, not for each rule: most rules have a few rows.
CALIBRATIONS = (
    Calibration(
        0.9,
        frozenset(
            {
                "eager_loop",
                "growing_graph",
                "many_runs",
                "retracing",
                "session_run_cost",
                "small_executions",
            }
        ),
        "the cause goes away whole with a change of one place: 15 planted programs and 6 trials "
        "won 0.77 to 1.27 of the bound, the median is 0.95; of the bound that eager_loop has had "
        "since then, five recordings won 0.84 to 0.98",
    ),
    Calibration(
        0.8,
        frozenset(
            {
                "callbacks_slow",
                "checkpoint_stalls",
                "evaluation_often",
                "garbage_collection",
                "input_bound",
                "python_between_steps",
            }
        ),
        "some of what the job does there stays: 34 planted programs and 2 trials won 0.44 to 1.02 "
        "of the bound, the median is 0.83",
    ),
)
_CALIBRATED = {rule: each.ratio for each in CALIBRATIONS for rule in each.rules}


def calibrated(rule: str, gain: Gain) -> Gain:
    """Return the gain with what is likely by measured rows, if there are any of its class of rules.

    A gain without a likely part keeps none.
    """
    ratio = _CALIBRATED.get(rule)
    if ratio is None or not gain.low_ns:
        return gain
    return replace(gain, low_ns=max(gain.low_ns, round(ratio * gain.high_ns)))


@dataclass(frozen=True, slots=True)
class Setting:
    """A threshold for people to read."""

    name: str
    default: float
    unit: str
    why: str


def settings() -> tuple[Setting, ...]:
    """Return all thresholds, by name."""
    return tuple(
        Setting(
            threshold.name,
            float(getattr(DEFAULTS, threshold.name)),
            threshold.metadata["unit"],
            threshold.metadata["why"],
        )
        for threshold in fields(Thresholds)
    )


def changed(thresholds: Thresholds, values: Mapping[str, object], *, source: str) -> Thresholds:
    """Return thresholds with these values; `source` is where they come from, for errors.

    Raises UsageError for an unknown name, and for a value that is not a number from 0 on.
    """
    known = {threshold.name for threshold in fields(Thresholds)}
    for name, value in values.items():
        if name not in known:
            raise UsageError(f"{source}: there is no threshold {name!r}.", hint=_nearest(name))
        number = _number(value, name)
        if isinstance(number, Missing):
            raise UsageError(f"{source}: {name} is {value!r}: {number.reason}.")
        thresholds = replace(thresholds, **{name: number})
    return thresholds


def parse(words: tuple[str, ...]) -> dict[str, object]:
    """Return the thresholds of NAME=VALUE words.

    Raises UsageError for one without a value.
    """
    found: dict[str, object] = {}
    for word in words:
        name, has_value, value = word.partition("=")
        if not has_value:
            raise UsageError(f"--threshold {word!r} has no value.", hint="Write NAME=VALUE.")
        found[name.strip()] = value.strip()
    return found


def _number(value: object, name: str) -> float | Missing:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return Missing("not a number")
    text = str(value)
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except (ValueError, OverflowError):
        return Missing("not a number")
    if not math.isfinite(number) or number < 0:
        return Missing("not a number from 0 on")
    if text.endswith("%") and not name.endswith("_ratio"):
        return Missing("a percentage, which only ratios are")
    if name.endswith(_COUNTS) and number != int(number):
        return Missing("not a whole number, which counts are")
    return number


def _nearest(name: str) -> str:
    known = sorted(threshold.name for threshold in fields(Thresholds))
    near = difflib.get_close_matches(name, known, n=_NEAREST, cutoff=0.0)
    return f"The nearest are: {', '.join(near)}. docs/advice.md lists all."
