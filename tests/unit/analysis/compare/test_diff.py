"""Two recordings are compared fairly: chance is told from change, and what is unknown is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.profiles import Step, loop, op, process, profile, timed_loop
from tfprobe.analysis.compare.comparison import Diff, diff
from tfprobe.analysis.compare.gate import GateVerdict, judge
from tfprobe.analysis.compare.matching_loops import match
from tfprobe.analysis.compare.measurements import Change, compare, sample
from tfprobe.analysis.compare.op_changes import OpChanges
from tfprobe.errors import Missing
from tfprobe.profile.activities import ResourceSample
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.profile import UNTOLD, Loop, Profile, Run

MS = 1_000_000


def noisy_ns(count: int, *, seed: int, memory: float = 0.5, times: float = 1.0) -> np.ndarray:
    """Return step times of 10 ms with 5 % of correlated noise."""
    random = np.random.default_rng(seed)
    noise = random.standard_normal(count)
    for at in range(1, count):
        noise[at] = memory * noise[at - 1] + (1 - memory**2) ** 0.5 * noise[at]
    return (10 * MS * times * (1 + 0.05 * noise)).astype(np.int64)


def compared(before: Profile, after: Profile) -> Diff:
    found = diff(before, after)
    assert isinstance(found, Diff)
    return found


def change(before: np.ndarray, after: np.ndarray) -> Change:
    found = compare(sample(before, block_size=4), sample(after, block_size=4), comparisons=1)
    assert isinstance(found, Change)
    return found


def test_the_same_steps_have_not_changed():
    """A run compared with itself is the same."""
    times = noisy_ns(500, seed=1)

    found = change(times, times)

    assert found.ratio == 0
    assert not found.is_significant


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_chance_is_seldom_called_a_change(memory):
    """At most 5 of 100 pairs of recordings of the same job differ, with correlated steps or not."""
    alarms = [
        change(
            noisy_ns(400, seed=2 * at, memory=memory), noisy_ns(400, seed=2 * at + 1, memory=memory)
        ).is_significant
        for at in range(100)
    ]

    assert sum(alarms) <= 5


def test_recordings_that_are_moved_as_a_whole_differ_by_chance():
    """A recording that is 3 % slower, and whose blocks differ as much, is no change."""
    alarms = 0
    for at in range(60):
        random = np.random.default_rng(at)
        sides = []
        for side in range(2):
            drift = (
                1 + 0.03 * random.standard_normal() + 0.03 * random.standard_normal(16).repeat(25)
            )
            sides.append((noisy_ns(400, seed=1000 + 2 * at + side) * drift).astype(np.int64))
        alarms += change(*sides).is_significant

    assert alarms <= 4


def test_a_planted_slowdown_is_found():
    """Steps that take 10 % longer are detected, and the interval contains the true change."""
    found = [
        change(noisy_ns(400, seed=at), noisy_ns(400, seed=99 + at, times=1.1)) for at in range(20)
    ]

    assert sum(each.is_significant for each in found) == 20
    assert sum(each.low_ratio <= 0.1 <= each.high_ratio for each in found) >= 19


def test_a_change_too_small_to_matter_is_none():
    """One percent is not reported, however significant."""
    found = change(np.full(400, 10 * MS), np.full(400, int(10.1 * MS)))

    assert found.low_ratio > 0
    assert not found.is_significant


def test_few_steps_cannot_be_told():
    """Three steps on one side do not show what is chance."""
    answer = compare(
        sample(noisy_ns(400, seed=1), block_size=4),
        sample(np.array([1, 2, 3]), block_size=4),
        comparisons=1,
    )

    assert answer == Missing("too few to decide")


def test_nothing_at_all_cannot_be_told():
    """A loop without a step has too few, too."""
    nothing = sample(np.zeros(0, dtype=np.int64), block_size=4)

    assert compare(nothing, nothing, comparisons=1) == Missing("too few to decide")


def named(kind: str, name: str, index: int = 0, of: int = 0, **facts: Any) -> Loop:
    return loop(kind=kind, name=name, index=index, process=of, **facts)


def pairs_of(before: Profile, after: Profile) -> list[tuple[str, str]]:
    return [(pair.before.name, pair.after.name) for pair in match(before, after).pairs]


def test_works_are_matched_by_kind_and_name():
    """The order in which loops began does not matter."""
    before = profile(loops=[named("fit", "m"), named("evaluate", "m", 1)])
    after = profile(loops=[named("evaluate", "m"), named("fit", "m", 1)])

    kinds = [(pair.before.kind, pair.after.kind) for pair in match(before, after).pairs]

    assert sorted(kinds) == [("evaluate", "evaluate"), ("fit", "fit")]


def test_the_only_work_of_a_kind_may_have_another_name():
    """A model that is now called sequential_1 is still the model."""
    before = profile(loops=[named("fit", "sequential"), named("function", "f", 1)])
    after = profile(
        loops=[named("fit", "sequential_1"), named("function", "g", 1), named("function", "h", 2)]
    )

    found = match(before, after)

    assert pairs_of(before, after) == [("sequential", "sequential_1")]
    assert [pair.is_renamed for pair in found.pairs] == [True]
    assert [each.name for each in found.only_before] == ["f"]
    assert [each.name for each in found.only_after] == ["g", "h"]


def test_works_of_ranks_are_matched_by_rank():
    """The steps of worker 1 are compared with those of worker 1."""
    ranks = [process(index=0, rank=0), process(index=1, rank=1)]
    turned = [process(index=0, rank=1), process(index=1, rank=0)]
    before = profile(loops=[named("fit", "m"), named("fit", "m", of=1)], processes=ranks)
    after = profile(loops=[named("fit", "m"), named("fit", "m", of=1)], processes=turned)

    found = match(before, after).pairs

    assert [(each.rank, each.after.process) for each in found] == [(0, 1), (1, 0)]


def test_runs_without_a_common_work_say_what_they_have():
    """Nothing can be compared, and the reason names both."""
    answer = diff(profile(loops=[named("fit", "m")]), profile(loops=[named("eager", "Adam")]))

    assert answer == Missing("they have no kind of step in common: A has fit m; B has eager Adam")


def test_runs_without_samples_are_compared_by_their_steps():
    """What can be compared is: step times without ops."""
    found = compared(
        profile(loops=[timed_loop(noisy_ns(200, seed=1))]),
        profile(loops=[timed_loop(noisy_ns(200, seed=2, times=1.5))]),
    )

    (one,) = found.loops
    assert isinstance(one.steps.step, Change)
    assert one.steps.step.is_significant
    assert one.ops == Missing("no step was traced in A and B")


def test_warm_up_and_traced_steps_are_not_compared():
    """A first step of a second and traced steps five times as long change nothing."""
    plain = np.full(200, 10 * MS)
    other = plain.copy()
    other[:3] = 1000 * MS
    other[9::10] = 50 * MS

    found = compared(
        profile(loops=[timed_loop(plain)]),
        profile(loops=[timed_loop(other, sampled=range(9, 200, 10))]),
    )

    (one,) = found.loops
    assert isinstance(one.steps.step, Change)
    assert [each.ratio for _, each in one.steps.measures] == [0.0] * 5


def test_longer_gaps_are_found_where_steps_are_the_same():
    """Waiting for input between two steps makes the cycle longer, and the median gap."""
    found = compared(
        profile(loops=[timed_loop([10 * MS] * 200, MS)]),
        profile(loops=[timed_loop([10 * MS] * 200, 6 * MS)]),
    )

    assert [(what, round(change.ratio, 2)) for _, what, change in found.changed_steps] == [
        ("cycle", 0.45)
    ]


def test_longer_gaps_are_found_on_a_busy_machine():
    """A sleep between steps is no disturbance: the fast ones have it, too."""
    sample = ResourceSample(**{**dict.fromkeys(ResourceSample.__dataclass_fields__, UNTOLD),
        "process": 0, "at_ns": 0, "steps": 0, "cpus": 2, "load_1min": 9.0, "devices": ()
    })  # fmt: skip
    steps_ns = noisy_ns(400, seed=5)

    found = compared(
        profile(loops=[timed_loop(steps_ns, MS)], resource_samples=(sample,)),
        profile(loops=[timed_loop(steps_ns, 20 * MS)], resource_samples=(sample,)),
    )

    assert found.load
    assert [what for _, what, _ in found.changed_steps] == ["fast_cycle"]


def jittered(us: int, at: int) -> int:
    return us + (at * 7) % 5


def sampled_run(times_us: dict[str, int], *, samples: int = 12) -> Profile:
    """Return a run whose traced steps ran these ops, each a few µs more or less."""
    steps = [
        Step([op(name, 0, jittered(us, at)) for name, us in times_us.items()])
        for at in range(samples)
    ]
    return profile(steps, loops=[timed_loop(noisy_ns(100, seed=3))])


def ops_of(before: Profile, after: Profile) -> OpChanges:
    (one,) = compared(before, after).loops
    assert isinstance(one.ops, OpChanges)
    return one.ops


def test_an_op_that_got_slower_is_named():
    """One of three op types takes twice the time; the others do not change."""
    found = ops_of(
        sampled_run({"MatMul": 100, "Relu": 50, "Add": 40}),
        sampled_run({"MatMul": 200, "Relu": 50, "Add": 40}),
    )

    assert [each.name for each in found.types if each.is_significant] == ["MatMul"]
    assert found.types[0].delta_ns == pytest.approx(100_000)
    assert (found.before_steps, found.after_steps) == (11, 11)


def test_new_and_gone_ops_are_named():
    """A fused op replaces two."""
    found = ops_of(sampled_run({"Conv2D": 100, "BiasAdd": 10}), sampled_run({"_FusedConv2D": 90}))

    assert (found.new, found.gone) == (("_FusedConv2D",), ("BiasAdd", "Conv2D"))


def test_few_samples_are_not_enough_to_tell():
    """With three traced steps per side no op is slower."""
    found = ops_of(sampled_run({"MatMul": 100}, samples=4), sampled_run({"MatMul": 300}, samples=4))

    assert [each.change for each in found.types] == [Missing("too few samples to decide")]


def test_gradients_are_compared_below_their_layer():
    """A dense layer that got slower is one scope, forward and backward."""

    def run(us: int) -> Profile:
        steps = [
            Step(
                [
                    op("MatMul", 0, jittered(us, at))._replace(
                        name="StatefulPartitionedCall/m/dense/MatMul"
                    ),
                    op("MatMul", 300, jittered(us, at))._replace(
                        name="StatefulPartitionedCall/gradient_tape/m/dense/MatMul/MatMul"
                    ),
                    op("Relu", 600, 50)._replace(name="StatefulPartitionedCall/m/conv/Relu"),
                ]
            )
            for at in range(12)
        ]
        return profile(steps, loops=[timed_loop(noisy_ns(100, seed=3))])

    found = ops_of(run(100), run(180))

    significant = [each for each in found.scopes if each.is_significant]
    assert significant[0].name == "m/dense"
    assert significant[0].delta_ns == pytest.approx(160_000)
    assert "m" not in [each.name for each in significant]


def test_copies_are_no_ops():
    """A copy to the device is not an op type; the breakdown has it."""
    steps = [Step([op("MatMul", 0, 50), op("MatMul", 0, 9, Place.HOST_TO_DEVICE)])] * 6
    run = profile(steps, loops=[timed_loop(noisy_ns(100, seed=3))])

    assert [each.before_ns for each in ops_of(run, run).types] == [50_000.0]


def test_what_is_not_the_same_is_told():
    """Versions, settings, devices, processes and kinds of step that only one has."""
    before = profile(
        loops=[named("fit", "m")],
        processes=[
            process(
                tensorflow="2.15.1",
                settings={"jit": False, "intra_op_threads": 8},
                devices=("/device:CPU:0", "/device:GPU:0"),
            )
        ],
    )
    after = profile(
        loops=[named("fit", "m"), named("evaluate", "m", 1)],
        processes=[
            process(
                tensorflow="2.21.0",
                settings={"jit": True, "intra_op_threads": 8},
                devices=("/device:CPU:0",),
            )
        ],
    )

    told = {each.of: (each.before, each.after) for each in compared(before, after).differences}

    assert told == {
        "TensorFlow": ("2.15.1", "2.21.0"),
        "devices": ("1 CPU, 1 GPU", "1 CPU"),
        "jit": ("False", "True"),
        "other kinds of step": ("none", "evaluate m"),
    }


def test_another_batch_is_told_by_what_steps_are_fed():
    """A Session fed twice the bytes has another batch."""

    def fed(size: int) -> Profile:
        run = profile([Step([op("MatMul", 0, 5)])] * 3, loops=[loop()])
        return replace(run, captures=tuple(replace(c, fed_bytes=size) for c in run.captures))

    (told,) = compared(fed(1000), fed(2000)).differences

    assert (told.of, told.before, told.after) == (
        "session_run loss: bytes fed to a step",
        "1,000",
        "2,000",
    )


def verdict(
    times: float, *, on: str = "steps", allowed_ratio: float = 0.05, strict: bool = False
) -> GateVerdict:
    """Judge steps that take so many times as long, with the time between them as it was."""
    before = profile(loops=[timed_loop(noisy_ns(400, seed=5), 3 * MS)])
    after = profile(loops=[timed_loop(noisy_ns(400, seed=6, times=times), 3 * MS)])
    return judge(compared(before, after), on=on, allowed_ratio=allowed_ratio, strict=strict)


def test_the_gate_fails_over_the_program_alone():
    """The machine may have made steps and gaps longer alike: it only fails if `strict`."""
    before = profile(loops=[timed_loop(noisy_ns(400, seed=5), 3 * MS)])
    after = profile(loops=[timed_loop(noisy_ns(400, seed=6, times=1.2), int(3.6 * MS))])
    found = compared(before, after)

    lenient = judge(found, on="steps", allowed_ratio=0.05)
    strict = judge(found, on="steps", allowed_ratio=0.05, strict=True)

    assert (lenient.word, strict.word) == ("cannot be told", "FAIL")
    assert "compare several runs a side" in lenient.why


def test_the_gate_fails_over_what_is_slower_than_allowed():
    """A fifth slower fails if 5 % are allowed, and passes if 50 % are."""
    assert verdict(1.2).fails
    assert "the median step of session_run loss grew by" in verdict(1.2).why
    assert not verdict(1.2, allowed_ratio=0.5).fails


def test_the_gate_passes_what_is_faster_or_the_same():
    """Faster steps do not fail."""
    assert not verdict(0.5).fails
    assert not verdict(1.0).fails


def test_the_gate_fails_where_nothing_can_be_told():
    """A build without anything to compare does not pass silently."""
    found = verdict(1.0, on="op")

    assert found.fails
    assert (
        found.why == "no kind of step has enough traced steps in both, so nothing can be compared"
    )


def test_the_gate_looks_at_ops():
    """An op twice as slow fails, whatever the change of the step."""
    found = compared(
        sampled_run({"MatMul": 100, "Relu": 50}), sampled_run({"MatMul": 200, "Relu": 50})
    )

    answer = judge(found, on="op", allowed_ratio=0.1)

    assert answer.fails
    assert "the time of MatMul in session_run loss grew by 9" in answer.why


def test_the_gate_looks_at_memory():
    """Ops that request twice the bytes fail."""

    def run(size: int) -> Profile:
        return profile([Step([op("MatMul", 0, 5, bytes=size)])] * 5, loops=[loop()])

    answer = judge(compared(run(1000), run(2000)), on="memory", allowed_ratio=0.1)

    assert answer.fails
    assert "session_run loss: requested by ops in a step grew by 100.0 %" in answer.why


def test_a_busy_machine_is_told_beside_the_failure():
    """If other processes kept the CPUs busy, the job may not be at fault for a slower step."""

    def run(times: float, load: float) -> Profile:
        sample = ResourceSample(**{**dict.fromkeys(ResourceSample.__dataclass_fields__, UNTOLD),
            "process": 0, "at_ns": 0, "steps": 0, "cpus": 2, "load_1min": load, "devices": ()
        })  # fmt: skip
        return profile(
            loops=[timed_loop(noisy_ns(400, seed=5, times=times))],
            resource_samples=(sample,),
        )

    found = compared(run(1.0, 0.8), run(2.0, 6.1))
    answer = judge(found, on="steps", allowed_ratio=0.05, strict=True)

    assert answer.fails
    assert answer.why.startswith("the fast step (p10) of ")
    assert answer.why.endswith(
        "the load of the machine was 0.8 on 2 CPUs in A and 6.1 on 2 CPUs in B"
    )


def test_a_slowdown_is_seen_through_a_busy_machine():
    """Half of the steps are disturbed, up to tenfold: the fast steps still show the change."""

    def disturbed(times: float, seed: int) -> np.ndarray:
        random = np.random.default_rng(seed)
        factors = 1 + (random.random(800) < 0.5) * random.random(800) * 9
        bursts = (1 + 2 * random.random(16)).repeat(50) ** (random.random(800) < 0.7)
        return (10 * MS * times * factors * bursts).astype(np.int64)

    found = compared(
        profile(loops=[timed_loop(disturbed(1.0, 1))]),
        profile(loops=[timed_loop(disturbed(1.6, 2))]),
    )

    assert "fast" in [what for _, what, _ in found.changed_steps]


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ("py a.py --batch 8 --lr 1", "py a.py --batch 16 --lr 1", ("--batch 8", "--batch 16")),
        ("py a.py", "py a.py --jit", ("(nothing there)", "--jit")),
        ("py a.py", "py b.py", ("a.py", "b.py")),
    ],
)
def test_commands_are_told_by_the_words_that_differ(one, other, told):
    """Only the differences of two long command lines are shown."""
    sides = [
        profile(loops=[loop()], run=Run("r", "/r", tuple(each.split()), "x", "finished"))
        for each in (one, other)
    ]

    (found,) = compared(*sides).differences

    assert (found.of, (found.before, found.after)) == ("command", told)


def test_another_interpreter_of_the_same_version_is_no_difference():
    """The path of Python is not compared."""
    sides = [
        profile(loops=[loop()], run=Run("r", "/r", (each, "a.py"), "x", "finished"))
        for each in ("/usr/bin/python", "/opt/python")
    ]

    assert compared(*sides).differences == ()
