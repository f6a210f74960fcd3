"""What rules look at follows from a profile: loops, ops, machines, and reads of tensors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.op_runs import Ran, RunOfOps
from tests.support.profiles import Span, Step, durations, loop, op, process, profile, timed_loop
from tests.support.rundir import MONO_NS, UNIX_NS
from tests.support.subjects import account
from tests.support.tiers import SECOND_NS, resource_sample
from tfprobe.analysis.account.ledger import Item
from tfprobe.analysis.core.intervals import busy_ns_by_group
from tfprobe.analysis.memory.host_memory import GrowthVerdict
from tfprobe.analysis.ops import graph_costs
from tfprobe.analysis.ops.graph_costs import graph_loop
from tfprobe.analysis.system.application import ActivityInSteps
from tfprobe.errors import Missing
from tfprobe.findings.collect import analyse, with_own_line
from tfprobe.findings.rule import LoopAnalysis, ProcessAnalysis
from tfprobe.findings.thresholds import DEFAULTS
from tfprobe.profile.activities import Activity, Call, Gap, ResourceSample, ThreadTimes, ThreadUse
from tfprobe.profile.capture_tables import Place, SpanKind
from tfprobe.profile.profile import Profile

MS = 1_000_000
MIB = 2**20
UNTOLD = Missing("untold")


def _loop(made: Profile) -> LoopAnalysis:
    return analyse(made, (), DEFAULTS).loops[0]


def _process(made: Profile) -> ProcessAnalysis:
    return analyse(made, (), DEFAULTS).processes[0]


def test_the_loop_is_from_the_first_step_to_the_end_of_the_last() -> None:
    """Ten steps of 1 ms with 1 µs between them."""
    timing = _loop(profile(loops=[loop()])).timing

    assert (timing.step_ns, timing.gap_ns, timing.thread_ns) == (10 * MS, 9_000, 10 * MS + 9_000)


def test_what_another_work_does_between_two_steps_is_no_gap() -> None:
    """Training that is interrupted by an evaluation waits for it, and not for anything else."""
    training = loop((MS,) * 2, gaps=durations([5 * MS]))
    start = training.recent.end_ns[-1] - 7 * MS
    moved = replace(training.recent, start_ns=np.array([start, start + 6 * MS]))
    moved = replace(moved, end_ns=moved.start_ns + MS)
    inside = replace(
        moved,
        start_ns=moved.end_ns[:1] + 1000,
        end_ns=moved.end_ns[:1] + 4 * MS + 1000,
        sampled=moved.sampled[:1],
        raised=moved.raised[:1],
    )
    evaluation = loop((4 * MS,), index=1, kind="evaluate", recent=inside)

    run = analyse(profile(loops=[replace(training, recent=moved), evaluation]), (), DEFAULTS)

    assert run.loops[0].timing.gap_ns == MS


def test_a_traced_step_between_steps_of_others_is_taken_off_once() -> None:
    """Three runs take turns; one step took 30 ms to trace, and lies in a gap of each other run."""
    steps_ns, gaps_ns = [MS] * 10, [2 * MS] * 10
    traced_ns, around_ns = [*steps_ns], [*gaps_ns]
    traced_ns[5], around_ns[5] = 31 * MS, 32 * MS
    loops = [
        timed_loop(traced_ns, gaps_ns, sampled=[5], index=0),
        timed_loop(steps_ns, around_ns, start_ns=MONO_NS + MS, index=1),
        timed_loop(steps_ns, around_ns, start_ns=MONO_NS + 2 * MS, index=2),
    ]

    timing = analyse(profile(loops=loops), (), DEFAULTS).loops[0].timing

    assert timing.thread_ns == 30 * MS


def test_retraces_are_charged_with_the_slowest_steps_but_the_first() -> None:
    """Beyond the median of the others; the first step is slow in any case."""
    values = (50 * MS, MS, 9 * MS, MS, 7 * MS, MS, MS, MS)

    timing = _loop(profile(loops=[loop(values, retraces=2)])).timing

    assert timing.retrace_ns == 14 * MS
    assert timing.slowest_steps[:2] == (2, 4)


def test_where_steps_are_forgotten_the_histogram_bounds_retraces() -> None:
    """By the upper bounds of its buckets, so that the bound stays one."""
    values = (MS,) * 100 + (9 * MS,) * 3

    timing = _loop(profile(loops=[loop(values, retraces=3, remembered=1)])).timing

    assert 24 * MS <= timing.retrace_ns <= 24 * MS * 17 / 16


def test_where_every_step_is_traced_nothing_is_taken_off() -> None:
    """There is no usual step without a trace."""
    timing = _loop(profile(loops=[loop((5 * MS,) * 10, retraces=9)])).timing

    assert (timing.retrace_ns, timing.untraced) == (45 * MS, 0)


def test_ops_that_overlap_count_once() -> None:
    """Two threads at the same time are one stretch of time."""
    rows = [op("MatMul", 0, 60), op("MatMul", 40, 60), op("Add", 90, 5)]

    ops = _loop(profile([Step(rows)], loops=[loop()])).ops

    assert not isinstance(ops, Missing)
    assert [(use.type, use.busy_ns, use.stats.runs) for use in ops.host] == [
        ("MatMul", 100_000, 2),
        ("Add", 5_000, 1),
    ]


def test_time_with_tiny_ops_alone_is_the_span_without_large_ones() -> None:
    """From the first op to the end of the last; what lies around is not the ops' fault."""
    rows = [op("Add", 10, 2), op("MatMul", 20, 30), op("Add", 70, 5)]

    ops = _loop(profile([Step(rows)], loops=[loop()])).ops

    assert not isinstance(ops, Missing)
    assert (ops.span_ns, ops.large_ns, ops.busy_ns) == (65_000, 30_000, 37_000)
    assert ops.fusible_ns == 7_000


def test_calls_and_waits_are_no_ops() -> None:
    """A function's call covers its ops, and waiting is not computing."""
    rows = [op("PartitionedCall", 0, 100), op("IteratorGetNext", 0, 50), op("MatMul", 50, 10)]

    ops = _loop(profile([Step(rows)], loops=[loop()])).ops

    assert not isinstance(ops, Missing)
    assert [use.type for use in ops.host] == ["MatMul"]


def test_ops_for_later_steps_are_apart() -> None:
    """They compute beside the step; Python and reading may wait, and take no CPU then."""
    rows = [
        op("MatMul", 0, 60),
        op("Tanh", 0, 20, background=True),
        op("Tanh", 10, 20, background=True),
        op("PyFunc", 0, 90, background=True),
        op("ReadFile", 0, 90, background=True),
        op("IteratorGetNext", 0, 90, background=True),
    ]

    ops = _loop(profile([Step(rows)], loops=[loop()])).ops

    assert not isinstance(ops, Missing)
    assert [use.type for use in ops.host] == ["MatMul"]
    assert [use.type for use in ops.concurrent] == ["Tanh"]
    assert (ops.concurrent_ns, ops.concurrent_busy_ns) == (40_000, 30_000)


def test_ops_for_later_steps_are_those_of_the_steps_that_show_some() -> None:
    """As a trace opens the input may run ahead; where most steps show none, it is over soon."""
    with_input = Step([op("MatMul", 0, 60), op("Tanh", 0, 40, background=True)])
    without = Step([op("MatMul", 0, 60)])

    half = _loop(profile([with_input, without], loops=[loop()])).ops
    third = _loop(profile([with_input, without, without], loops=[loop()])).ops

    assert not isinstance(half, Missing)
    assert not isinstance(third, Missing)
    assert (half.concurrent_ns, half.concurrent_busy_ns) == (40_000, 40_000)
    assert round(third.concurrent_ns) == 13_333


def test_ops_of_the_host_are_exposed_where_no_kernel_runs() -> None:
    """An op that has a kernel is only scheduled by the host."""
    rows = [
        op("Unique", 0, 50),
        op("MatMul", 50, 5),
        op("MatMul", 30, 40, Place.ACCELERATOR),
    ]

    ops = _loop(profile([Step(rows)], loops=[loop()])).ops

    assert not isinstance(ops, Missing)
    assert [(use.type, use.busy_ns) for use in ops.exposed_host] == [("Unique", 30_000)]
    assert [use.type for use in ops.device] == ["MatMul"]


def test_busy_time_is_the_union_in_each_group() -> None:
    """Groups do not cover each other, whatever their times."""
    group = np.array([2, 0, 2, 0, 2])
    start = np.array([0, 5, 4, 100, 50])
    end = np.array([10, 15, 8, 110, 60])

    assert busy_ns_by_group(group, 4, start, end).tolist() == [20, 0, 20, 0]


def test_sampled_steps_lead_to_their_files() -> None:
    """Below the run directory."""
    samples = _loop(profile([Step([op("MatMul", 0, 60)])], loops=[loop()])).traced_steps

    assert [(each.step, each.capture) for each in samples] == [(0, "node7/4711-1/captures/0.pb")]


def test_parts_are_those_of_the_breakdown() -> None:
    """Over all steps they took what all steps took."""
    made = profile([Step([op("MatMul", 60, 40)])], loops=[loop((100_000,) * 10)])

    parts = _loop(made).parts

    assert not isinstance(parts, Missing)
    assert parts.ratio("host_compute") == pytest.approx(0.4)
    assert parts.of_all_steps("host_compute") == pytest.approx(400_000)


def test_what_recording_added_is_no_part_of_a_cycle() -> None:
    """It goes with the recording: nobody wins it by changing the job."""
    made = profile([Step([op("MatMul", 60, 40)])], loops=[loop((100_000,) * 10)])
    traced = replace(made.captures[0], plain_ns=40_000, fed_bytes=1)

    parts = _loop(replace(made, captures=(traced,))).parts

    assert not isinstance(parts, Missing)
    assert parts.ratio("host_compute") == pytest.approx(1.0)
    assert sum(parts.shares.values()) == pytest.approx(1.0)


def _call(function: str, file: str, parent: int | None, self_ns: int, line: int = 1) -> Call:
    return Call(parent, function, file, line, line, False, 1, self_ns)


def _gap(step: int, *calls: Call) -> Gap:
    duration_ns = sum(call.self_ns for call in calls)
    return Gap(0, 0, step, UNIX_NS, duration_ns, 0, False, calls)


def test_what_lies_between_steps_is_scaled_to_all_gaps() -> None:
    """A traced step is longer than others, and weighs too much in a sampled cycle."""
    made = profile([Step([op("MatMul", 0, 100)])], loops=[loop((50_000,) * 10)])
    waiting = _call("__next__", "/env/site-packages/tensorflow/python/data/ops.py", None, 50_000)
    gap = Gap(0, 0, 0, UNIX_NS + 100_000, 50_000, 0, False, (waiting,))
    made = replace(made, gaps=(gap,), loops=(replace(made.loops[0], gaps=durations([50_000] * 9)),))

    parts = _loop(made).parts

    assert not isinstance(parts, Missing)
    assert parts.of_all_steps("host_compute") == pytest.approx(500_000)
    assert parts.of_all_steps("input_wait") == pytest.approx(450_000)


def test_a_slow_first_step_is_not_what_steps_are_made_of() -> None:
    """It traces and fills caches: what ops take is scaled to the others."""
    values = (90 * MS, *(MS,) * 20)

    timing = _loop(profile(loops=[loop(values)])).timing

    assert (timing.step_ns, timing.regular_step_ns) == (110 * MS, 21 * MS)


def test_traces_are_counted_where_the_agent_has_not_looked_yet() -> None:
    """Each trace of a function is an activity with its name."""
    traces = Activity(0, "trace", "train_step", "MainThread", UNIX_NS, UNIX_NS + MS, 5, 9 * MS)
    made = profile(loops=[loop(name="train_step", retraces=1)], activities=(traces,))

    assert _loop(made).timing.retraces == 4


def test_traces_of_jax_are_no_retraces_of_a_loop() -> None:
    """It also traces a function that it differentiates; the agent sees each compilation itself."""
    traces = Activity(0, "trace", "loss", "MainThread", UNIX_NS, UNIX_NS + MS, 5, 9 * MS)
    made = profile(loops=[loop(name="loss", kind="jit", retraces=1)], activities=(traces,))

    assert _loop(made).timing.retraces == 1


@pytest.mark.parametrize(
    ("kinds", "is_eager", "is_of_jax"),
    [(("grad", "jit"), True, True), (("jit", "grad"), False, True), (("grad", "fit"), True, False)],
)
def test_a_process_runs_eagerly_if_gradients_take_most_time(
    kinds: tuple[str, str], *, is_eager: bool, is_of_jax: bool
) -> None:
    """A compiled function that is called beside them, as one of optax is, changes nothing."""
    longest, other = kinds
    loops = [loop([9 * MS] * 9, kind=longest), loop([MS] * 9, index=1, kind=other)]

    (process,) = analyse(profile(loops=loops), (), DEFAULTS).processes

    assert (process.runs_jax_eagerly, process.is_of_jax) == (is_eager, is_of_jax)


def test_reading_a_tensor_between_steps_is_found_with_its_line() -> None:
    """The outermost call counts, with all below it; the line is the job's own."""
    ops = "/env/site-packages/tensorflow/python/framework/ops.py"
    reading = (
        _call("main", "/home/ada/train.py", None, 10),
        _call("numpy", ops, 0, 20, line=31),
        _call("_numpy", ops, 1, 30),
    )
    made = profile(loops=[loop()], gaps=(_gap(3, *reading), _gap(4, reading[0])))

    syncs = _loop(made).reads

    assert not isinstance(syncs, Missing)
    assert (syncs.ratio, syncs.calls, syncs.ns) == (0.5, 0.5, 25)
    assert (syncs.function, syncs.source) == ("numpy", "/home/ada/train.py:31")


def _resource_sample(second: int, resident_mib: int, **changes) -> ResourceSample:
    facts = dict.fromkeys(ResourceSample.__slots__, UNTOLD)
    facts |= {
        "process": 0,
        "at_ns": UNIX_NS + second * 10**9,
        "steps": 10 * second,
        "at_exit": False,
    }
    return ResourceSample(
        **{**facts, "devices": (), "resident_bytes": resident_mib * MIB, **changes}
    )


def test_growth_is_that_of_the_later_half() -> None:
    """What is allocated at the start is no growth."""
    made = profile(
        loops=[loop()], resource_samples=tuple(_resource_sample(s, 500 + 10 * s) for s in range(21))
    )

    machine = _process(made).machine

    assert not isinstance(machine, Missing)
    growth = machine.growth
    assert not isinstance(growth, Missing)
    assert (growth.bytes_per_step, growth.verdict) == (MIB, GrowthVerdict.GROWING)
    assert (growth.last_step - growth.first_step, machine.resident_bytes) == (100, 700 * MIB)


def test_the_cpus_are_those_that_the_cgroup_allows() -> None:
    """Where they are fewer than the process may run on."""
    made = profile(
        loops=[loop()],
        resource_samples=(_resource_sample(0, 1), _resource_sample(1, 1, cpus=64, cpu_limit=2.0)),
    )

    machine = _process(made).machine

    assert not isinstance(machine, Missing)
    assert machine.cpus == 2.0


def test_cpus_and_switches_are_those_between_the_first_pulse_and_the_last() -> None:
    """Threads of the process ran for 3 s of 2; pulses of before have neither."""
    counts = ("user_ns", "system_ns", "voluntary_switches", "involuntary_switches")
    first = _resource_sample(0, 1, **dict.fromkeys(counts, 0))
    last = _resource_sample(2, 1, **dict(zip(counts, (2 * 10**9, 10**9, 30, 10), strict=True)))

    machine = _process(profile(loops=[loop()], resource_samples=(first, last))).machine
    untold = _process(
        profile(loops=[loop()], resource_samples=(_resource_sample(0, 1), _resource_sample(1, 1)))
    ).machine

    assert not isinstance(machine, Missing)
    assert not isinstance(untold, Missing)
    assert (machine.used_cpus, machine.switches_per_s) == (1.5, 20.0)
    assert isinstance(untold.used_cpus, Missing)
    assert isinstance(untold.switches_per_s, Missing)


def test_what_happened_before_the_first_step_is_not_in_the_loop() -> None:
    """Restoring a checkpoint is not saving at each step."""
    first = UNIX_NS + 10 * MS
    saves = (
        Activity(0, "save", "Saver.save", "MainThread", UNIX_NS, UNIX_NS + MS, 1, MS, "a.py", 3),
        Activity(
            0, "save", "Saver.save", "MainThread", first, first + 2 * MS, 5, 9 * MS, "a.py", 7
        ),
    )

    placed = process(unix_minus_monotonic_ns=UNIX_NS + 20 * MS)
    made = profile(loops=[loop(first_seen_ns=first)], activities=saves, processes=[placed])

    found = _process(made).activities

    assert [(each.count, each.own_ns, each.source) for each in found] == [(4, 8 * MS, "a.py:7")]


def test_a_loop_knows_when_its_first_step_was_seen() -> None:
    """Whether steps come all through a loop is told from that."""
    made = profile(loops=[loop(first_seen_ns=UNIX_NS + 7)])

    assert _loop(made).timing.first_seen_ns == UNIX_NS + 7


@pytest.mark.parametrize(
    ("devices", "has_one"),
    [
        (("/host:CPU", "/job:localhost/replica:0/task:0/device:CPU:0"), False),
        (("/device:XLA_CPU:0",), False),
        (("/device:CPU:0", "/physical_device:GPU:0"), True),
    ],
)
def test_a_cpu_is_no_accelerator(devices: tuple[str, ...], has_one: bool) -> None:
    """By the names TensorFlow and its profiler give devices."""
    made = profile(loops=[loop()], processes=[process(devices=devices)])

    assert _process(made).has_accelerator is has_one


def test_an_empty_run_is_analysed_as_well() -> None:
    """Nothing is sampled, no process told anything: no rule fails."""
    run = analyse(profile(), (), DEFAULTS)

    assert run.loops == ()
    assert isinstance(run.processes[0].machine, Missing)


def test_steps_that_stand_out_are_outliers_unless_a_rule_knows_why() -> None:
    """A first step is slow in any case; one of which nothing is known is told."""
    values = (90 * MS, *(MS,) * 20, 40 * MS, *(MS,) * 20)

    outliers = _loop(profile(loops=[loop(values)])).outliers

    assert not isinstance(outliers, Missing)
    assert (outliers.steps, outliers.excess_ns) == ((21,), 39 * MS)


def test_whatever_a_first_step_was_slow_for_is_no_outlier_of_the_loop() -> None:
    """What it took is set apart, whether or not something is known to have gone on in it."""
    slow = loop((50 * MS, *(MS,) * 40))
    start_ns, end_ns = int(slow.recent.start_ns[0]), int(slow.recent.end_ns[0])
    shift_ns = UNIX_NS - int(slow.recent.start_ns[0])
    reading = Activity(
        0, "data", "cache", "MainThread", start_ns + shift_ns, end_ns + shift_ns, 1, 50 * MS
    )
    placed = process(unix_minus_monotonic_ns=shift_ns)

    outliers = _loop(profile(loops=[slow], processes=[placed], activities=(reading,))).outliers

    assert not isinstance(outliers, Missing)
    assert (outliers.steps, outliers.excess_ns) == ((), 0)


def test_what_callbacks_took_at_the_end_of_an_epoch_is_told_once() -> None:
    """By callbacks_slow, which counts them whole."""
    slow = loop((MS,) * 20 + (50 * MS,) + (MS,) * 20)
    shift_ns = UNIX_NS - int(slow.recent.start_ns[0])
    start_ns, end_ns = (
        int(each[20]) + shift_ns for each in (slow.recent.start_ns, slow.recent.end_ns)
    )
    drawing = Activity(0, "callbacks", "on_epoch_end", "MainThread", start_ns, end_ns, 1, 50 * MS)
    placed = process(unix_minus_monotonic_ns=shift_ns)

    outliers = _loop(profile(loops=[slow], processes=[placed], activities=(drawing,))).outliers

    assert not isinstance(outliers, Missing)
    assert (outliers.steps, outliers.excess_ns) == ((), 0)


def test_callbacks_have_the_line_of_the_jobs_own_method() -> None:
    """By the account, which knows it from watched gaps; else the line that called fit."""
    own = Item("on_epoch_end", "/home/ada/train.py:16", MS, times=2)
    of_keras = Item("on_epoch_end", "/env/site-packages/keras/src/callbacks.py:9", MS, times=2)
    activity = ActivityInSteps("callbacks", "CallbackList.on_epoch_end", 2, MS, MS, "train.py:31")

    sources = [
        with_own_line(activity, each).source
        for each in (account(9 * MS, epoch_ends=(own,)), account(9 * MS, callbacks=(of_keras,)))
    ]

    assert sources == ["/home/ada/train.py:16", "train.py:31"]


def test_outliers_at_one_distance_say_which() -> None:
    """Most of them, by number and by time: what the job does at every 20th step is its own."""
    values = [MS] * 200
    values[20::20] = [9 * MS] * 9
    scattered = [MS] * 200
    for at in (3, 11, 40, 41, 57, 90, 133, 170):
        scattered[at] = 9 * MS

    stopped = [*values]
    stopped[55] = 200 * MS

    regular = _loop(profile(loops=[loop(values)])).outliers
    once = _loop(profile(loops=[loop(stopped)])).outliers
    others = _loop(profile(loops=[loop(scattered)])).outliers

    assert not isinstance(regular, Missing)
    assert not isinstance(others, Missing)
    assert not isinstance(once, Missing)
    assert (regular.every, once.every, others.every) == (20, None, None)


def test_copies_are_those_of_a_mean_step_and_say_what_is_pageable() -> None:
    """What a kernel hides is not exposed; those within the device are not told."""
    pageable = "kind_src:pageable kind_dst:device size:1000"
    rows = [
        op("MatMul", 0, 50, Place.ACCELERATOR, detail="sgemm"),
        op("MemcpyH2D", 40, 20, Place.HOST_TO_DEVICE, detail=pageable),
        op("MemcpyD2D", 60, 20, Place.DEVICE_TO_DEVICE),
    ]
    rows = [row._replace(device="/device:GPU:0/stream:all") for row in rows]

    copies = _loop(profile([Step(rows), Step(rows)], loops=[loop()])).copies

    assert not isinstance(copies, Missing)
    (one,) = copies
    assert (one.direction, one.count, one.bytes) == ("to the device", 1, 1000)
    assert (one.busy_ns, one.exposed_ns, one.pageable_ns) == (20_000, 10_000, 20_000)


def test_products_in_32_bits_are_eligible_and_others_are_not() -> None:
    """By the kernel's name; one that does not tell counts as wide."""
    rows = [
        op("MatMul", 0, 30, Place.ACCELERATOR, detail="ampere_sgemm_128x64"),
        op("MatMul", 30, 20, Place.ACCELERATOR, detail="h884gemm"),
        op("Relu", 50, 10, Place.ACCELERATOR, detail="EigenMetaKernel"),
    ]

    precision = _loop(profile([Step(rows)], loops=[loop()])).precision

    assert precision is not None
    assert not isinstance(precision, Missing)
    assert (precision.narrow_ns, precision.wide_ns, precision.eligible_ns) == (
        20_000,
        40_000,
        30_000,
    )


def test_transposes_are_known_by_the_op_and_by_the_kernel() -> None:
    """TensorFlow's own, and those that cuDNN puts around a convolution."""
    rows = [
        op("Conv2D", 0, 30, Place.ACCELERATOR, detail="implicit_gemm_nhwc"),
        op("Transpose", 30, 10, Place.ACCELERATOR, detail="SwapDimension1And2InTensor3"),
        op("BiasAdd", 40, 5, Place.ACCELERATOR, detail="cudnn::nchwToNhwcKernel"),
    ]

    layout = _loop(profile([Step(rows)], loops=[loop()])).layout

    assert layout is not None
    assert not isinstance(layout, Missing)
    assert (layout.nhwc_ns, layout.nchw_ns, layout.transpose_ns) == (30_000, 0, 15_000)


def test_a_job_on_the_host_has_no_results_for_accelerators() -> None:
    """And hears of no rule that lacks them."""
    found = _loop(profile([Step([op("MatMul", 0, 60)])], loops=[loop()]))

    assert (found.copies, found.layout, found.precision) == ((), None, None)


def test_a_time_without_ops_that_is_too_long_for_an_executor_is_a_pause() -> None:
    """A thread that lost its CPU between two ops is no sign of tiny ops."""
    rows = [op("Add", 10, 2), op("Add", 30, 5), op("Add", 20, 800), op("Mul", 1500, 5)]

    ops = _loop(profile([Step(rows, 2000), Step(rows, 2000)], loops=[loop()])).ops

    assert not isinstance(ops, Missing)
    assert ops.paused_ns == 680_000


def test_lines_and_layers_do_not_compute_while_their_ops_wait() -> None:
    """A line that takes elements from an iterator or a queue is no hot spot."""
    run = RunOfOps(
        Ran("next", "IteratorGetNext", 900, trace=(("/home/ada/data.py", 3),)),
        Ran("net/product", "MatMul", 100, trace=(("/home/ada/net.py", 5),)),
    )

    lines = graph_costs.costliest_lines(run.traced)

    assert not isinstance(lines, Missing)
    assert lines[0].source == "/home/ada/net.py:5"
    assert {use.source for use in lines if use.busy_ns} == {"/home/ada/net.py:5"}


def test_nodes_are_those_that_may_run_in_a_step() -> None:
    """Of two branches one runs; and a Session records all ops that ran, whatever its graph has."""
    nodes = (Ran("a"), Ran("b"), Ran("choice", "StatelessIf"), Ran("choice/then/c", us=0))
    traced = replace(RunOfOps(*nodes).traced, insides={"choice": frozenset({"choice/then/c"})})
    of_session = [replace(each, file="3.run_metadata.pb") for each in traced.captures]

    assert graph_costs.computing_nodes(traced) == 3
    assert isinstance(
        graph_costs.computing_nodes(replace(traced, captures=tuple(of_session))), Missing
    )


def test_no_cause_is_named_that_explains_less_than_half() -> None:
    """Of many outliers one may have met a garbage collection."""
    values = [MS] * 200
    for at in (3, 11, 40, 41, 57, 90, 133, 170):
        values[at] = 9 * MS
    slow = loop(values)
    shift_ns = UNIX_NS - int(slow.recent.start_ns[0])
    saving = Activity(
        0,
        "user",
        "log",
        "MainThread",
        int(slow.recent.start_ns[3]) + shift_ns,
        int(slow.recent.end_ns[3]) + shift_ns,
        1,
        9 * MS,
    )
    placed = process(unix_minus_monotonic_ns=shift_ns)

    found = _loop(profile(loops=[slow], processes=[placed], activities=(saving,))).outliers

    assert not isinstance(found, Missing)
    assert (len(found.steps), found.cause) == (8, "")


def test_what_began_after_the_last_step_held_none_up() -> None:
    """A model that is exported in the end is no checkpoint that steps wait for."""
    steps = loop()
    shift_ns = UNIX_NS - int(steps.recent.start_ns[0])
    last_ns = int(steps.recent.end_ns[-1]) + shift_ns
    first_ns = int(steps.recent.start_ns[2]) + shift_ns
    saves = (
        Activity(0, "save", "Model.save", "MainThread", first_ns, first_ns + MS, 1, MS),
        Activity(0, "save", "Model.save", "MainThread", last_ns, last_ns + 9 * MS, 2, 10 * MS),
    )
    placed = process(unix_minus_monotonic_ns=shift_ns)

    (use,) = _process(profile(loops=[steps], processes=[placed], activities=saves)).activities

    assert (use.count, use.total_ns) == (1, MS)
    assert use.own_ns <= MS


def test_ops_in_64_bits_are_known_by_the_type_of_their_results() -> None:
    """With the line that made most of them."""
    run = RunOfOps(
        Ran("a", us=30, more={"dtypes": ("DT_DOUBLE",)}, trace=(("/home/ada/net.py", 5),)),
        Ran("b", us=20, more={"dtypes": ("DT_FLOAT",)}),
    )

    found = graph_costs.double_precision(run.traced)

    assert not isinstance(found, Missing)
    assert (found.busy_ns, found.source) == (30_000, "/home/ada/net.py:5")


def test_what_is_computed_on_a_whole_table_is_known_by_the_graph() -> None:
    """Before its rows are taken, and after their gradients were made one tensor."""
    run = RunOfOps(
        Ran("read", "ReadVariableOp", 1),
        Ran("norm", "Mul", 10, inputs=("read",)),
        Ran("rows", "GatherV2", 2, inputs=("norm",), trace=(("/home/ada/net.py", 5),)),
        Ran("loss", "Sum", 3, inputs=("rows",)),
        Ran("sum", "UnsortedSegmentSum", 4, inputs=("loss",)),
        Ran("update", "AssignSubVariableOp", 5, inputs=("read", "sum")),
    )
    sparse = RunOfOps(*(Ran(name, us=1) for name in ("a", "b")))

    found, none = (
        graph_costs.dense_gradients(run.traced),
        graph_costs.dense_gradients(sparse.traced),
    )

    assert not isinstance(found, Missing)
    assert not isinstance(none, Missing)
    assert (found.busy_ns, found.source, none.busy_ns) == (10_000, "/home/ada/net.py:5", 0)


def test_products_with_one_hot_vectors_are_known_by_the_graph() -> None:
    """Their gradients, too; a loss that multiplies labels element by element is none."""
    run = RunOfOps(
        Ran("hot", "OneHot", 10),
        Ran("cast", "Cast", 10, inputs=("hot",)),
        Ran("rows", "MatMul", 30, inputs=("cast", "table"), trace=(("/home/ada/net.py", 5),)),
        Ran("loss", "Mul", 70, inputs=("hot", "rows")),
    )
    labels = RunOfOps(Ran("hot", "OneHot", 10), Ran("loss", "Mul", 70, inputs=("hot",)))

    found, none = (
        graph_costs.one_hot_products(run.traced),
        graph_costs.one_hot_products(labels.traced),
    )

    assert not isinstance(found, Missing)
    assert not isinstance(none, Missing)
    assert (found.busy_ns, found.source, none.busy_ns) == (30_000, "/home/ada/net.py:5", 0)


def test_a_loop_of_the_graph_lasts_until_its_result_is_taken() -> None:
    """Large ops meanwhile are not its doing. In the second step none of its ops was traced: there
    it begins no earlier than the op before its result ended."""
    run = RunOfOps(
        Ran("features", us=5),
        Ran("while", "StatelessWhile", us=0, trace=(("/home/ada/net.py", 5),)),
        Ran("while/Less", "Less", us=1),
        Ran("other", us=40),
        Ran("stack", us=50, inputs=("while",)),
    )
    starts = UNIX_NS + 1000 * np.array([0, 5, 100, 205] * 2)
    was_traced = np.array([True] * 5 + [False] + [True] * 2)
    rows = replace(run.traced.executions, start_ns=starts).only(was_traced)

    traced = replace(run.traced, executions=rows, node=run.traced.node[was_traced])

    found = graph_loop(traced, tiny_ns=10_000)

    assert not isinstance(found, Missing)
    assert (found.turns, found.source) == (1, "/home/ada/net.py:5")
    assert found.small_ns == (160_000 + 65_000) / 2


def test_a_loop_none_of_whose_ops_was_traced_lies_in_the_dark() -> None:
    """From the op before to the one that takes its result."""
    run = RunOfOps(
        Ran("features", us=5),
        Ran("while", "StatelessWhile", us=0, trace=(("/home/ada/net.py", 5),)),
        Ran("while/Less", "Less", us=1),
        Ran("stack", us=50, inputs=("while",)),
    )
    starts = UNIX_NS + 1000 * np.array([0, 5, 105] * 2)
    was_traced = np.array([True, False, True] * 2)
    rows = replace(run.traced.executions, start_ns=starts).only(was_traced)

    found = graph_loop(
        replace(run.traced, executions=rows, node=run.traced.node[was_traced]), tiny_ns=10_000
    )

    assert not isinstance(found, Missing)
    assert (found.turns, found.small_ns) == (0, 100_000)


def test_a_loop_over_steps_is_no_loop_within_one() -> None:
    """As that of Keras' steps_per_execution, whose turns each take a batch."""
    run = RunOfOps(
        Ran("while", "While", us=0, trace=(("/home/ada/net.py", 5),)),
        Ran("while/next", "IteratorGetNextAsOptional", us=1),
        Ran("while/product", "MatMul", us=1),
        Ran("stack", us=50, inputs=("while",)),
    )

    found = graph_loop(run.traced, tiny_ns=10_000)

    assert not isinstance(found, Missing)
    assert (found.name, found.small_ns) == ("", 0)


def test_the_line_that_makes_most_ops_is_known_by_the_graph() -> None:
    """Of more than half of them, or none."""
    trace = (("/home/ada/net.py", 5),)
    most = RunOfOps(Ran("a", trace=trace), Ran("b", trace=trace), Ran("c"))
    half = RunOfOps(Ran("a", trace=trace), Ran("b"))

    assert graph_costs.main_source_line(most.traced) == "/home/ada/net.py:5"
    assert graph_costs.main_source_line(half.traced) == ""


def test_the_line_that_saves_between_steps_is_the_jobs_own() -> None:
    """The call of it, whatever it calls in TensorFlow."""
    made = profile([Step([op("MatMul", 0, 100)])], loops=[loop((50_000,) * 10)])
    calls = (
        _call("train", "/home/ada/train.py", None, 1_000),
        _call("save", "/env/site-packages/keras/src/saving.py", 0, 49_000, line=26),
    )
    gap = Gap(0, 0, 0, UNIX_NS + 100_000, 50_000, 0, False, calls)
    made = replace(made, gaps=(gap,), loops=(replace(made.loops[0], gaps=durations([50_000] * 9)),))

    assert _loop(made).save_source == "/home/ada/train.py:26"


@pytest.mark.parametrize(
    ("thread", "is_known"), [("MainThread", True), ("QueueRunnerThread-q-enqueue", False)]
)
def test_python_between_steps_is_that_of_the_jobs_own_loop(thread: str, is_known: bool) -> None:
    """A thread that fills a queue holds up nothing by what it does between two elements."""
    gap = _gap(3, _call("prepare", "/home/ada/train.py", None, 90_000))

    python = _loop(profile(loops=[loop(thread=thread)], gaps=(gap,))).python

    assert isinstance(python, Missing) is not is_known


@pytest.mark.parametrize(("between", "is_ready"), [("FiniteTake", True), ("Shuffle", False)])
def test_elements_are_ready_where_all_of_them_lie_in_memory(between: str, is_ready: bool) -> None:
    """Cached, prefetched, and handed on as they are."""
    root = "Iterator::Root"
    paths = (root, f"{root}::Prefetch", f"{root}::Prefetch::{between}")
    paths += (f"{paths[-1]}::MemoryCache", f"{paths[-1]}::MemoryCache::MemoryCacheImpl")
    spans = tuple(Span(SpanKind.ITERATOR, path, 0, 100, "step") for path in paths)
    step = Step([op("IteratorGetNext", 0, 100), op("MatMul", 100, 50)], 150, spans=spans)

    found = _loop(profile([step], loops=[loop()])).input

    assert not isinstance(found, Missing)
    assert found.is_ready == is_ready


def test_the_line_of_a_queue_is_that_of_the_thread_that_fills_it() -> None:
    """A thread of the job's own is known by the enqueue that it runs."""
    dequeue = op("QueueDequeueV2", 0, 90)._replace(name="fifo_queue_Dequeue")
    steps = [Step([dequeue, op("MatMul", 90, 10)]), Step([op("QueueEnqueueV2", 0, 5)], 100, 1)]
    filler = loop(index=1, name="fifo_queue_enqueue", thread="Thread-1")
    reads = _call("read_from_storage", "/home/ada/train.py", None, 90_000, line=22)
    gaps = (replace(_gap(1, reads), loop=1),)

    found = _loop(profile(steps, loops=[loop(), filler], gaps=gaps)).input

    assert not isinstance(found, Missing)
    assert found.source == "/home/ada/train.py:22"


@pytest.mark.parametrize("name", ["fifo_queue_enqueue", "enqueue_input/queue_EnqueueMany"])
def test_what_fills_a_queue_is_accused_of_nothing_beside_the_training(name: str) -> None:
    """However long it takes: whether the training waits for it, the training tells."""
    filler = loop((9 * MS,) * 10, index=1, name=name, thread="Thread-1")

    analyses = analyse(profile(loops=[loop((MS,) * 10), filler]), (), DEFAULTS).loops

    assert [(each.subject.name, each.is_main) for each in analyses] == [(loop().name, True)]


def test_python_of_a_queues_filler_is_no_finding_of_its_own() -> None:
    """What it reads is told with the queue."""
    filler = loop(name="fifo_queue_enqueue", thread="Thread-1")

    python = _loop(profile(loops=[filler], gaps=(_gap(3, _call("read", "/a.py", None, 9)),))).python

    assert isinstance(python, Missing)


@pytest.mark.parametrize(
    ("lines", "source"),
    [
        ((("Dataset.map", "/home/ada/data.py", 9),), "/home/ada/data.py:9"),
        ((("Dataset.map", "/home/ada/data.py", 9), ("Dataset.map", "/home/ada/data.py", 12)), ""),
        ((("Dataset.map", "/env/site-packages/keras/src/adapter.py", 9),), ""),
        ((("Dataset.batch", "/home/ada/data.py", 9),), ""),
    ],
)
def test_the_line_that_made_the_slow_stage_is_named(lines, source: str) -> None:
    """Where one line of the job alone can have made it."""
    root = "Iterator::Root"
    slow = f"{root}::ParallelMapV2"
    times = ((root, 100), (slow, 100), (f"{slow}::Range", 5))
    spans = tuple(Span(SpanKind.ITERATOR, path, 0, us, "step") for path, us in times)
    step = Step([op("IteratorGetNext", 0, 100), op("MatMul", 100, 50)], 150, spans=spans)
    made = tuple(
        Activity(0, "data", name, "MainThread", UNIX_NS, UNIX_NS + 1, 1, 1, file, line)
        for name, file, line in (*lines, ("Dataset.prefetch", "/home/ada/data.py", 10))
    )

    found = _loop(profile([step], loops=[loop()], activities=made)).input

    assert not isinstance(found, Missing)
    assert (found.bottleneck, found.source, found.prefetches) == ("ParallelMapV2", source, True)


def test_python_that_makes_elements_is_known_by_where_it_stands() -> None:
    """In threads that TensorFlow started; what it takes for a step is traced beside the step."""
    root = "Iterator::Root"
    times = ((root, 100), (f"{root}::Generator", 90))
    spans = tuple(Span(SpanKind.ITERATOR, path, 0, us, "step") for path, us in times)
    step = Step([op("IteratorGetNext", 0, 100), op("MatMul", 100, 50)], 150, spans=spans)
    guest = ThreadUse("", True, 1, Missing("a place alone"), False, "/home/ada/data.py", 28, "row")
    at_s = [ThreadTimes(UNIX_NS + (second - 1) * SECOND_NS, (guest,)) for second in range(3)]
    resource_samples = tuple(
        resource_sample(second, thread_times=each) for second, each in enumerate(at_s)
    )

    found = _loop(profile([step], loops=[loop()], resource_samples=resource_samples)).input

    assert not isinstance(found, Missing)
    assert (found.bottleneck, found.source) == ("Generator", "/home/ada/data.py:28")


@pytest.mark.parametrize(("kind", "python_us"), [("FlatMap", 80.0), ("BatchV2", 40.0)])
def test_a_step_takes_one_call_of_a_generator_that_makes_its_batches(
    kind: str, python_us: float
) -> None:
    """In few captures chance says how many lie within; of rows of a batch nobody knows."""
    root = f"Iterator::Root::{kind}"
    path = f"{root}::Generator"
    spans = tuple(
        Span(SpanKind.ITERATOR, at, 0, us, "pool") for at, us in ((root, 100), (path, 90))
    )
    taking, computing = op("IteratorGetNext", 0, 100), op("MatMul", 100, 50)
    made = op("PyFunc", 5, 80, detail=path, background=True)
    steps = [Step([taking, computing, made], 150, spans=spans), Step([taking, computing], 150)]

    found = _loop(profile(steps, loops=[loop()])).input

    assert not isinstance(found, Missing)
    assert found.python_ns == python_us * 1000


def test_python_for_an_iterator_counts_whose_call_began_before_the_capture() -> None:
    """A step that is shorter than a call of the generator holds no call of any iterator below."""
    span = Span(SpanKind.ITERATOR, "Iterator::Root", 0, 100, "step")
    taking, computing = op("IteratorGetNext", 0, 100), op("MatMul", 100, 50)
    made = op("PyFunc", 5, 80, background=True)
    of_step = op("PyFunc", 120, 7)
    step = Step([taking, computing, made, of_step], 150, spans=(span,))

    found = _loop(profile([step], loops=[loop()])).input

    assert not isinstance(found, Missing)
    assert found.python_ns == 80_000
