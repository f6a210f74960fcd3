"""A run directory becomes a profile; what cannot be read becomes a problem with its place."""

from __future__ import annotations

import pytest

from tests.support.captures import CPU, Node, TraceEvent, run_metadata, xspace
from tests.support.rundir import (
    BOOT_ID,
    HOST,
    LAYOUT,
    MONO_NS,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)
from tfprobe.errors import NoAnswer
from tfprobe.profile.profile import Hooks
from tfprobe.profile.reader.run_reader import load
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine

ELSEWHERE = Machine("elsewhere", None)
NAME = "000002-session_run-0.run_metadata.pb"
METADATA = run_metadata({CPU: [Node("a", 10, 20, "a = MatMul()")]})
SAMPLE = {
    "event": "sample",
    "work": 0,
    "step": 2,
    "capture": NAME,
    "level": "full",
    "why": "budget",
    "start_ns": MONO_NS,
    "end_ns": MONO_NS + 100_000,
    "start_unix_ns": UNIX_NS,
    "plain_ns": 90_000,
}


def loaded(tmp_path, *processes: WrittenProcess, **options):
    return load(RunFolder(write_run(tmp_path / "r1", processes)), ELSEWHERE, **options)


def test_a_capture_has_its_step_from_the_event(tmp_path):
    """Step, work and window of a capture are those of its sample event."""
    process = WrittenProcess(events=[SAMPLE], captures={NAME: METADATA})

    profile = loaded(tmp_path, process)

    (capture,) = profile.captures
    assert (capture.step, capture.loop, capture.level) == (2, 0, "full")
    assert (capture.start_ns, capture.duration_ns, capture.plain_ns) == (UNIX_NS, 100_000, 90_000)
    assert profile.executions.start_ns.tolist() == [UNIX_NS + 10_000]


def test_without_its_event_a_capture_has_its_step_from_the_ring(tmp_path):
    """A log lost with a full disk costs the reason of a sample, not the sample."""
    loop = WrittenLoop(steps=regular_steps(5, step_ns=70_000, gap_ns=0))

    (capture,) = loaded(tmp_path, WrittenProcess(loops=[loop], captures={NAME: METADATA})).captures

    assert (capture.step, capture.loop) == (2, 0)
    assert (capture.start_ns, capture.duration_ns) == (UNIX_NS + 140_000, 70_000)


def test_a_trace_without_clock_starts_with_its_step(tmp_path):
    """Older TensorFlow counts from the start of the trace, which is that of the step."""
    name = "000002-fit-0.xplane.pb"
    content = xspace({"/host:CPU": {"python": [TraceEvent("a:Relu", 7)]}})
    process = WrittenProcess(events=[{**SAMPLE, "capture": name}], captures={name: content})

    assert loaded(tmp_path, process).executions.start_ns.tolist() == [UNIX_NS + 7_000]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe garbage", xspace({"/host:CPU": {}})])
def test_a_corrupt_capture_is_skipped_and_named(tmp_path, content):
    """The others are read, and the report says which one was not and why."""
    process = WrittenProcess(captures={NAME: METADATA, "000003-fit-0.xplane.pb": content})

    profile = loaded(tmp_path, process)

    assert len(profile.captures) == 1
    (problem,) = profile.problems
    assert "000003-fit-0.xplane.pb" in problem.where
    assert "skipped" in problem.what


def test_a_capture_with_impossible_numbers_is_skipped(tmp_path):
    """A damaged one may hold times in ns that need more than 64 bits."""
    content = run_metadata({CPU: [Node("a", 2**62)]})
    process = WrittenProcess(captures={NAME: METADATA, "000003-fit-0.run_metadata.pb": content})

    profile = loaded(tmp_path, process)

    assert [capture.file for capture in profile.captures] == [NAME]
    assert "far future" in profile.problems[0].what


def test_a_lost_steps_file_leaves_the_captures(tmp_path):
    """A process without steps.bin still has its op table."""
    root = write_run(tmp_path / "r1", [WrittenProcess(captures={NAME: METADATA})])
    (path,) = root.glob("*/*/steps.bin")
    path.write_bytes(b"garbage")

    profile = load(RunFolder(root), ELSEWHERE)

    assert (len(profile.loops), len(profile.captures)) == (0, 1)
    assert "steps.bin" in profile.problems[0].what


def test_the_agents_own_errors_are_problems(tmp_path):
    """When the agent stepped aside the report says so."""
    events = [
        {"event": "error", "where": "session", "what": "boom"},
        {"event": "aside", "why": "one error"},
    ]

    problems = loaded(tmp_path, WrittenProcess(events=events)).problems

    assert [("boom" in p.what, "stepped aside" in p.what) for p in problems] == [
        (True, False),
        (False, True),
    ]


def test_a_rank_selects_its_processes(tmp_path):
    """--rank 1 reads the process of rank 1 only; a rank that is not there has no answer."""
    rank = {"source": "TF_CONFIG", "index": 1, "world": 2, "role": "worker"}
    root = write_run(
        tmp_path / "r1", [WrittenProcess(pid=1), WrittenProcess(pid=2, manifest={"rank": rank})]
    )

    profile = load(RunFolder(root), ELSEWHERE, rank=1)

    assert [process.rank for process in profile.processes] == [1]
    with pytest.raises(NoAnswer, match="rank 5"):
        load(RunFolder(root), ELSEWHERE, rank=5)


def test_devices_and_versions_are_of_the_process(tmp_path):
    """What the agent noted of its process is in the profile."""
    devices = [{"name": "/device:GPU:0", "type": "GPU", "description": "T4"}]
    manifest = {"devices": devices, "tensorflow": "1.15.5", "python": "3.7.17"}

    (process,) = loaded(tmp_path, WrittenProcess(manifest=manifest)).processes

    assert (process.devices, process.tensorflow) == (("/device:GPU:0",), "1.15.5")


def test_the_state_of_a_running_job_is_live(tmp_path):
    """A reader of a running job sees it running."""
    proc = tmp_path / "proc"
    (proc / "4711").mkdir(parents=True)
    (proc / "4711" / "stat").write_text("4711 (python) S " + "0 " * 18 + "1234 0\n")
    root = write_run(tmp_path / "r1", [WrittenProcess()])

    assert load(RunFolder(root), Machine(HOST, BOOT_ID, proc)).run.state == "running"


def test_steps_have_their_place_on_the_wall_clock(tmp_path):
    """The moment that steps.bin has on both clocks turns monotonic times into unix ones."""
    process = WrittenProcess(loops=[WrittenLoop(steps=regular_steps(3))])

    found = loaded(tmp_path, process)

    assert found.processes[0].unix_minus_monotonic_ns == UNIX_NS - MONO_NS
    assert found.loops[0].first_seen_ns == UNIX_NS


GAP = {
    "work": 0,
    "step": 2,
    "start_ns": MONO_NS + 500,
    "end_ns": MONO_NS + 800,
    "cost_ns": 20,
    "cut": True,
    "calls": [[-1, 0, 0, 1, 100], [0, 1, 12, 3, 200]],
    "functions": [["/job/train.py", 3, "main", False], ["", 0, "time.sleep", False]],
}


def test_a_process_lived_until_its_last_step(tmp_path):
    """The header tells of its latest sample, or of 1024 steps ago; a kill may come much later."""
    loop = WrittenLoop(steps=regular_steps(30, step_ns=1_000_000, gap_ns=0))
    header = {LAYOUT.STARTED_WORD: MONO_NS, LAYOUT.ACTIVE_WORD: MONO_NS + 2_000_000}

    (process,) = loaded(tmp_path, WrittenProcess(loops=[loop], header=header)).processes

    assert isinstance(process.hooks, Hooks)
    assert process.hooks.wall_ns == loop.steps[-1][1] - MONO_NS


def test_gaps_are_on_the_wall_clock(tmp_path):
    """What a thread did after a step stands beside the step, with lines one can open."""
    (gap,) = loaded(tmp_path, WrittenProcess(gaps=[GAP])).gaps

    assert (gap.process, gap.loop, gap.step, gap.cut, gap.cost_ns) == (0, 0, 2, True, 20)
    assert (gap.start_ns, gap.duration_ns) == (UNIX_NS + 500, 300)
    (main, sleep) = gap.calls
    assert (main.parent, main.file, main.line, main.self_ns) == (None, "/job/train.py", 3, 100)
    assert (sleep.parent, sleep.function, sleep.called_line, sleep.count) == (
        0,
        "time.sleep",
        12,
        3,
    )


def test_without_a_steps_file_gaps_have_the_clock_of_events(tmp_path):
    """Each event is told on both clocks."""
    root = write_run(tmp_path / "r1", [WrittenProcess(events=[SAMPLE], gaps=[GAP])])
    (path,) = root.glob("*/*/steps.bin")
    path.write_bytes(b"garbage")

    (gap,) = load(RunFolder(root), ELSEWHERE).gaps

    assert gap.start_ns == UNIX_NS + 500


def test_damaged_gaps_are_told(tmp_path):
    """The others are read."""
    damaged = {**GAP, "end_ns": 0}

    profile = loaded(tmp_path, WrittenProcess(gaps=[GAP, damaged]))

    assert len(profile.gaps) == 1
    assert "1 lines of gaps.jsonl" in profile.problems[0].what


YEAR_NS = 365 * 24 * 3600 * 10**9
LASTED_NS = 90_000_000_000


@pytest.mark.parametrize("set_by_ns", [YEAR_NS, -YEAR_NS])
def test_wall_time_is_right_though_the_clock_was_set(tmp_path, set_by_ns):
    """What a process noted of its end on the monotonic clock counts."""
    words = {
        LAYOUT.STATE_WORD: LAYOUT.FINISHED,
        LAYOUT.EXIT_WORD: UNIX_NS + LASTED_NS + set_by_ns,
        LAYOUT.EXIT_MONO_WORD: MONO_NS + LASTED_NS,
    }

    (process,) = loaded(tmp_path, WrittenProcess(header=words)).processes

    assert isinstance(process.hooks, Hooks)
    assert process.hooks.wall_ns == LASTED_NS


def test_an_older_recording_has_its_wall_time_by_the_wall_clock(tmp_path):
    """Its agent noted no other end."""
    words = {LAYOUT.STATE_WORD: LAYOUT.FINISHED, LAYOUT.EXIT_WORD: UNIX_NS + LASTED_NS}

    (process,) = loaded(tmp_path, WrittenProcess(header=words)).processes

    assert isinstance(process.hooks, Hooks)
    assert process.hooks.wall_ns == LASTED_NS


def _loaded_with_clock_set(tmp_path, set_by_ns, **event):
    sample = {**SAMPLE, "start_unix_ns": UNIX_NS + set_by_ns, "unix_ns": UNIX_NS + set_by_ns}
    metadata = run_metadata({CPU: [Node("a", 10 + set_by_ns // 1000, 20, "a = MatMul()")]})
    process = WrittenProcess(events=[{**sample, **event}], captures={NAME: metadata})
    return loaded(tmp_path, process)


@pytest.mark.parametrize("set_by_ns", [YEAR_NS, -YEAR_NS])
def test_a_capture_is_among_its_steps_though_the_clock_was_set(tmp_path, set_by_ns):
    """Steps are on the clock as it was when the process started, and so are their traces."""
    profile = _loaded_with_clock_set(tmp_path, set_by_ns)

    assert [each.start_ns for each in profile.captures] == [UNIX_NS]
    assert profile.executions.start_ns.tolist() == [UNIX_NS + 10_000]


def test_one_late_reading_is_no_clock_that_was_set(tmp_path):
    """The job may be interrupted between the readings of both clocks."""
    late = {"unix_ns": UNIX_NS + YEAR_NS, "mono_ns": MONO_NS + YEAR_NS}

    profile = _loaded_with_clock_set(tmp_path, 10**9, **late)

    assert [each.start_ns for each in profile.captures] == [UNIX_NS + 10**9]


@pytest.mark.parametrize("set_by_ns", [3600 * 10**9, -(10**9)])
def test_a_capture_in_which_the_clock_was_set_is_skipped_and_named(tmp_path, set_by_ns):
    """Its times are told by two clocks."""
    profile = _loaded_with_clock_set(tmp_path, 0, clock_set_ns=set_by_ns)

    (problem,) = profile.problems
    assert "the clock was set during its step" in problem.what
    assert profile.captures == ()
