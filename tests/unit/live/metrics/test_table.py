"""What is exposed of a look: names by the conventions, values, labels that hold anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from tests.support import looks, promlint
from tests.support.looks import NOW_NS, SECOND_NS
from tests.support.profiles import timed_loop
from tests.support.rundir import UNIX_NS
from tfprobe.errors import Missing
from tfprobe.live.metrics.exporter import FAMILIES, Exporter
from tfprobe.live.metrics.server import text
from tfprobe.live.metrics.subjects import Limits
from tfprobe.profile.snapshots import FleetSnapshot, ProcessSnapshot, TraceRequestState, WallTime
from tfprobe.runs.liveness import STATES

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
PROCESS = {"run": "20261120-200418-train-4f2a9c", "host": "node7", "process": "4711-1"}
LOOP = {**PROCESS, "kind": "session_run", "name": "loss"}
MS = 1_000_000
HOSTILE = 'a "quoted\\ name"\nwith lines\r\x00\udcff and {braces="x"} # é'


def written(look: FleetSnapshot, accept: str = "", **limits: Any) -> str:
    exporter = Exporter(lambda: look, limits=Limits(**limits))
    return text(exporter.answer().families, accept)[0].decode()


def parsed(look: FleetSnapshot, **limits: Any) -> list[Metric]:
    return list(text_string_to_metric_families(written(look, **limits)))


def values(
    look: FleetSnapshot, **limits: Any
) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    metrics = parsed(look, **limits)
    samples = [sample for metric in metrics for sample in metric.samples]
    return {(each.name, frozenset(each.labels.items())): each.value for each in samples}


def value(
    look: FleetSnapshot, name: str, labels: dict[str, str] | None = None, **limits: Any
) -> Any:
    return values(look, **limits).get((name, frozenset((labels or {}).items())))


def full() -> FleetSnapshot:
    """A look with every metric in it."""
    machine = looks.resource_sample(process=None, host="node7", devices=(looks.device(),))
    used = looks.resource_sample(throttled_ns=SECOND_NS, memory_limit_bytes=1 << 30)
    one = looks.process(
        [looks.steps(), looks.steps(kind="fit", name="net")], resource_samples=(used,)
    )
    other = looks.process(folder="4712-1", pid=4712, rank=1, role="worker")
    return looks.fleet(looks.run([one, other], machines=(machine,)))


def test_the_parser_of_prometheus_reads_it():
    """Every sample comes back under the family that it was written with."""
    told = {metric.name: metric.type for metric in parsed(full())}

    assert told["tfprobe_step_duration_seconds"] == "histogram"
    assert told["tfprobe_steps"] == "counter"
    assert told["tfprobe_process_resident_memory_bytes"] == "gauge"


def test_the_parser_of_openmetrics_reads_it():
    """Which is stricter: units, suffixes, order, an end."""
    told = {metric.name: metric for metric in openmetrics_families(written(full(), OPENMETRICS))}

    assert told["tfprobe_step_duration_seconds"].unit == "seconds"
    assert told["tfprobe_process"].type == "info"


def test_names_and_units_follow_the_conventions():
    """What promtool would say of it: nothing."""
    assert promlint.complaints(parsed(full())) == []


def test_the_lint_would_say_something():
    """A lint that never complains is worth nothing."""
    bad = [
        "# HELP tfprobe_time_ms Time\n# TYPE tfprobe_time_ms gauge\ntfprobe_time_ms 1\n",
        "# HELP t_total T.\n# TYPE t_total gauge\nt_total 1\n",
        "# HELP t T.\n# TYPE t histogram\n"
        't_bucket{le="1"} 2\nt_bucket{le="+Inf"} 1\nt_count 3\nt_sum 1\n',
    ]

    told = [promlint.complaints(list(text_string_to_metric_families(each))) for each in bad]

    assert [bool(each) for each in told] == [True, True, True]
    assert len(told[2]) == 2


def test_everything_in_the_table_is_exposed():
    """A look at which all is known has series of every family but those of findings."""
    told = {sample.name for metric in parsed(full()) for sample in metric.samples}
    wanted = {family.name for family in FAMILIES if "findings" not in family.name}

    assert wanted - told == {"tfprobe_step_duration_seconds"}
    assert "tfprobe_step_duration_seconds_bucket" in told


def test_steps_are_counted_and_timed():
    """100 steps of 10 ms."""
    found = values(looks.fleet())

    def of(name: str, **more: str) -> float:
        return found[name, frozenset({**LOOP, **more}.items())]

    assert of("tfprobe_steps_total") == 100
    assert of("tfprobe_step_duration_seconds_count") == 100
    assert of("tfprobe_step_duration_seconds_sum") == pytest.approx(1.0)
    assert of("tfprobe_step_duration_seconds_bucket", le="0.008388608") == 0
    assert of("tfprobe_step_duration_seconds_bucket", le="0.012582912") == 100


def test_works_of_several_threads_are_one():
    """A thread has a name that nobody knows, and a pool has many of them."""
    loops = [looks.steps(10, index=i, thread=f"Thread-{i}") for i in range(3)]

    assert value(looks.fleet(looks.run([looks.process(loops)])), "tfprobe_steps_total", LOOP) == 30


def test_further_works_are_one_together():
    """The first so many to be seen keep their names, so that no counter ever loses a part."""
    loops = [looks.steps(10, index=i, name=f"fetch{i}") for i in range(5)]
    look = looks.fleet(looks.run([looks.process(loops)]))

    found = values(look, most_loops=2)

    steps = {dict(labels)["name"]: n for (name, labels), n in found.items()
             if name == "tfprobe_steps_total"}  # fmt: skip
    assert steps == {"fetch0": 10, "fetch1": 10, "": 30}


def test_names_are_cut():
    """The fetches of a session may be 256 bytes long; what is cut alike is counted together."""
    loops = [looks.steps(10, index=i, name="x" * 200 + str(i)) for i in range(2)]

    found = values(looks.fleet(looks.run([looks.process(loops)])))

    (steps,) = [(dict(labels)["name"], n) for (name, labels), n in found.items()
                if name == "tfprobe_steps_total"]  # fmt: skip
    assert steps == ("x" * 119 + "…", 20)


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_labels_hold_anything(accept):
    """Quotes, backslashes, newlines, control characters and invalid UTF-8 come from the disk."""
    command = ("python", HOSTILE)
    process = looks.process([looks.steps(name=HOSTILE)], host=HOSTILE, argv=command)
    look = looks.fleet(looks.run([process], directory=f"/runs/{HOSTILE}", command=command))
    parse = openmetrics_families if accept else text_string_to_metric_families

    metrics = {metric.name: metric for metric in parse(written(look, accept))}

    (steps,) = metrics["tfprobe_steps"].samples
    assert (
        steps.labels["name"]
        == 'a "quoted\\ name"\nwith lines\ufffd\ufffd\ufffd and {braces="x"} # é'
    )
    assert promlint.complaints(list(metrics.values())) == []


def test_a_copy_of_a_run_is_another_run():
    """It has the same id, and series with the same labels would lose the whole scrape."""
    copies = [looks.run(directory=f"/runs/{name}") for name in ("a", "b")]

    told = {dict(labels)["run"] for (name, labels) in values(looks.fleet(*copies))
            if name == "tfprobe_steps_total"}  # fmt: skip

    assert told == {"a", "b"}


def test_two_processes_of_one_name_are_told_once():
    """Whatever put them there; how many were left out is told."""
    look = looks.fleet(looks.run([looks.process(), looks.process()]))

    assert value(look, "tfprobe_left_out_processes", {"reason": "duplicate"}) == 1
    assert promlint.complaints(parsed(look)) == []


@pytest.mark.parametrize(("after_s", "is_told"), [(3500, True), (3700, False)])
@pytest.mark.parametrize("state", ["finished", "killed", "unknown"])
def test_a_process_is_told_for_an_hour_after_its_end(state, after_s, is_told):
    """And one of another machine, which nobody can look up, for an hour of silence."""
    process = looks.process(state=state)
    end_ns = UNIX_NS + process.process.hooks.wall_ns
    look = looks.fleet(looks.run([process], state=state), at_unix_ns=end_ns + after_s * SECOND_NS)

    assert (value(look, "tfprobe_steps_total", LOOP) is not None) is is_told
    assert value(look, "tfprobe_left_out_processes", {"reason": "finished"}) == (not is_told)
    assert value(look, "tfprobe_runs", {"state": state}) == 1


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_a_process_that_is_there_is_told_however_silent_it_is(state):
    """A job that is stuck for a week is what one watches for."""
    week_ns = 7 * 24 * 3600 * SECOND_NS
    run = looks.run([looks.process(state=state)], state=state)

    look = looks.fleet(run, at_unix_ns=NOW_NS + week_ns)

    assert value(look, "tfprobe_process_state", {**PROCESS, "state": state}) == 1


def test_running_processes_are_told_first_of_many():
    """Of 10 processes there may be 3: the two that run, and the one that started last."""
    ended = [looks.process(state="finished", folder=f"{i}-1", started_unix_ns=UNIX_NS + i)
             for i in range(8)]  # fmt: skip
    running = [looks.process(folder=f"r{i}-1") for i in range(2)]
    look = looks.fleet(looks.run([*ended, *running]))

    found = values(look, most_processes=3)

    told = {dict(labels)["process"] for name, labels in found if name == "tfprobe_steps_total"}
    assert told == {"r0-1", "r1-1", "7-1"}
    assert value(look, "tfprobe_left_out_processes", {"reason": "most_processes"},
                 most_processes=3) == 7  # fmt: skip


def test_exactly_one_state_is_1():
    """So that `sum by (state)` counts processes."""
    found = values(looks.fleet())

    states = {dict(labels)["state"]: n for (name, labels), n in found.items()
              if name == "tfprobe_process_state"}  # fmt: skip

    assert states == {state: float(state == "running") for state in STATES}


def last_step(process: ProcessSnapshot) -> float:
    look = looks.fleet(looks.run([process]))
    found: float = value(look, "tfprobe_process_last_step_timestamp_seconds", PROCESS)
    return found


def test_the_last_step_is_told_as_a_moment():
    """By the moment that the process has noted on both clocks, so that it does not tremble."""
    process = looks.process()
    end_ns = int(process.loops[0].recent.end_ns[-1])

    offset_ns = process.process.unix_minus_monotonic_ns
    assert last_step(process) == pytest.approx((offset_ns + end_ns) / 1e9, abs=1e-6)


def test_a_clock_that_was_set_meanwhile_is_seen_through():
    """An hour back: the step a moment ago is not in the future."""
    process = looks.process()
    hour_ns = 3600 * SECOND_NS
    facts = replace(process.process, unix_minus_monotonic_ns=UNIX_NS + hour_ns)
    end_ns = int(process.loops[0].recent.end_ns[-1])

    moment_s = last_step(replace(process, process=facts))

    assert moment_s == pytest.approx((NOW_NS - (process.now_mono_ns - end_ns)) / 1e9, abs=1e-6)


def test_the_last_step_of_a_process_that_ended_stays_where_it_was():
    """It is not read again, so that its own clock stands still while ours goes on."""
    process = looks.process(state="finished")
    end_ns = int(process.loops[0].recent.end_ns[-1])
    run = looks.run([process], state="finished")

    look = looks.fleet(run, at_unix_ns=NOW_NS + 600 * SECOND_NS)

    moment_s = value(look, "tfprobe_process_last_step_timestamp_seconds", PROCESS)
    offset_ns = process.process.unix_minus_monotonic_ns
    assert moment_s == pytest.approx((offset_ns + end_ns) / 1e9, abs=1e-6)


def test_goodput_and_what_the_time_went_to():
    """By the parts of the account; they sum to the time since the start."""
    found = values(looks.fleet())

    def of(name: str, **more: str) -> float:
        return found[name, frozenset({**PROCESS, **more}.items())]

    assert of("tfprobe_process_goodput_ratio") == 0.75
    assert of("tfprobe_process_time_seconds", part="productive") == 45
    assert of("tfprobe_process_time_seconds", part="not_known") == 15


def test_what_makes_no_progress_has_times_and_no_goodput():
    """A goodput of 0 of a parameter server would fire an alert."""
    used = WallTime(SECOND_NS, (("waiting_for_others", SECOND_NS),), Missing("no step"))

    look = looks.fleet(looks.run([looks.process([], wall_time=used)]))

    assert value(look, "tfprobe_process_goodput_ratio", PROCESS) is None
    waits = {**PROCESS, "part": "waiting_for_others"}
    assert value(look, "tfprobe_process_time_seconds", waits) == 1


def test_what_is_missing_has_no_series():
    """Never 0: an alert on little memory would fire."""
    bare = looks.process(
        [], resource_samples=(), shares=Missing("none"), wall_time=Missing("none"),
        request=Missing("none"), hooks=Missing("gone"),
        now_mono_ns=Missing("gone"), unix_minus_monotonic_ns=Missing("gone"),
    )  # fmt: skip
    look = looks.fleet(looks.run([bare], command=Missing("lost"), started_unix_ns=Missing("lost")))

    told = {name for name, labels in values(look) if ("process", "4711-1") in labels}

    assert told == {
        "tfprobe_process_info",
        "tfprobe_process_state",
        "tfprobe_process_start_time_seconds",
        "tfprobe_process_captures",
    }
    assert value(look, "tfprobe_run_readable", {"run": PROCESS["run"]}) == 0


def test_what_a_profiler_service_recorded_is_readable():
    """It has no steps.bin that could be damaged, and nobody knows its pid."""
    hooks = Missing("the profiler service does not tell")
    process = looks.process([], pid=0, port=6009, state="finished", hooks=hooks)

    told = values(looks.fleet(looks.run([process])))

    infos = [dict(labels) for name, labels in told if name == "tfprobe_process_info"]
    assert told[("tfprobe_run_readable", frozenset({("run", PROCESS["run"])}))] == 1
    assert [info["pid"] for info in infos] == [""]


def test_shares_are_told_with_their_time():
    """Of the latest captures, which may be old."""
    found = values(looks.fleet())

    shares = {dict(labels)["part"]: n for (name, labels), n in found.items()
              if name == "tfprobe_process_cycle_ratio"}  # fmt: skip
    at_s = found["tfprobe_process_cycle_timestamp_seconds", frozenset(PROCESS.items())]
    assert shares == {"before": 0.25, "on": 0.5, "after": 0.125, "other": 0.125}
    assert at_s == NOW_NS / 1e9 - 5


@pytest.mark.parametrize(
    ("request_", "left"),
    [
        (TraceRequestState(0, 0, 0), 0),
        (TraceRequestState(2, 2, 3), 3),
        (TraceRequestState(2, 1, 3), None),
        (TraceRequestState(1, 1, -7), None),
    ],
)
def test_samples_that_are_left_are_told_once_the_process_knows(request_, left):
    """What it has not seen, and what is garbage, is not a number of samples."""
    look = looks.fleet(looks.run([looks.process(request=request_)]))

    assert value(look, "tfprobe_process_requested_samples", PROCESS) == left


def test_accelerators_are_told_by_their_latest_pulse():
    """Whatever order the lines came in."""
    resource_samples = [
        looks.resource_sample(process=None, host="node7", at_ns=NOW_NS + at,
                    devices=(looks.device(utilization_ratio=ratio),))
        for at, ratio in ((2, 0.5), (1, 0.9))
    ]  # fmt: skip
    labels = {"run": PROCESS["run"], "host": "node7", "device": "0"}

    look = looks.fleet(looks.run(machines=resource_samples))

    assert value(look, "tfprobe_accelerator_utilization_ratio", labels) == 0.5
    assert value(look, "tfprobe_accelerator_memory_used_bytes", labels) == 1 << 30


def test_no_runs_are_no_error():
    """A directory may be empty: the exporter tells of itself."""
    look = FleetSnapshot("/runs", NOW_NS, ())

    assert value(look, "tfprobe_directory_up") == 1
    assert value(look, "tfprobe_runs", {"state": "running"}) == 0
    assert promlint.complaints(parsed(look)) == []


def test_silence_is_told_by_what_is_usual():
    """Three times the longest that lay between two steps; nothing of a process that has ended."""
    steps = [10 * MS] * 50 + [2 * SECOND_NS] + [10 * MS] * 50
    loop = timed_loop(steps, MS)
    now_ns = int(loop.recent.end_ns[-1]) + 6 * (2 * SECOND_NS + MS)

    def ratio(state: str) -> Any:
        silent = looks.process([loop], now_mono_ns=now_ns, state=state)
        return value(looks.fleet(looks.run([silent])), "tfprobe_process_silence_ratio", PROCESS)

    assert ratio("running") == pytest.approx(6)
    assert ratio("finished") is None


def test_silence_is_not_told_of_the_first_steps():
    """Nobody knows what is usual after two steps."""
    young = looks.process([looks.steps(2)])

    assert value(looks.fleet(looks.run([young])), "tfprobe_process_silence_ratio", PROCESS) is None


def test_slowness_is_that_beside_the_middle_process():
    """Of three like processes; one by itself has none."""
    processes = [
        looks.process([looks.steps(step_ns=ms * MS)], folder=f"471{rank}-1", rank=rank)
        for rank, ms in enumerate((10, 10, 15))
    ]
    look = looks.fleet(looks.run(processes))

    def ratio(folder: str) -> Any:
        return value(look, "tfprobe_process_slowness_ratio", {**PROCESS, "process": folder})

    assert [ratio(f"471{rank}-1") for rank in range(3)] == pytest.approx([1, 1, 1.5])
    assert value(looks.fleet(), "tfprobe_process_slowness_ratio", PROCESS) is None
