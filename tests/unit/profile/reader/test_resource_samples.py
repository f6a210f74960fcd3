"""Pulses, settings and the bytes of a step come into the profile, or say why they do not."""

from __future__ import annotations

import json

import pytest

from tests.support.captures import CPU, Node, run_metadata
from tests.support.rundir import HOST, MONO_NS, UNIX_NS, WrittenProcess, write_run
from tfprobe.errors import Missing
from tfprobe.profile.profile import OwnProfiler
from tfprobe.profile.reader.captures import NO_TENSORS, NOT_FED
from tfprobe.profile.reader.followed_process import NO_SETTINGS
from tfprobe.profile.reader.run_reader import load
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine

CAPTURE = "000002-session_run-0.run_metadata.pb"
METADATA = run_metadata({CPU: [Node("a", 10, 20, "a = MatMul()")]})


def _load(tmp_path, *events: dict[str, object], **files: list[dict[str, object]]):
    root = write_run(tmp_path / "r1", [WrittenProcess(events=events, captures={CAPTURE: METADATA})])
    (folder,) = (root / HOST).iterdir()
    places = {
        "resource_samples": folder / "pulses.jsonl",
        "machine": root / "machine" / f"{HOST}.jsonl",
    }
    (root / "machine").mkdir()
    for name, lines in files.items():
        places[name].write_text("".join(json.dumps(line) + "\n" for line in lines))
    return load(RunFolder(root), Machine("elsewhere", None))


def test_a_pulse_is_on_the_wall_clock(tmp_path):
    """What was not told is missing, with the reason."""
    line = {"mono_ns": MONO_NS + 9, "steps": 4, "user_ns": 7, "cpu_limit": 0.5}

    (resource_sample,) = _load(tmp_path, resource_samples=[line]).resource_samples

    assert (resource_sample.process, resource_sample.at_ns, resource_sample.steps) == (
        0,
        UNIX_NS + 9,
        4,
    )
    assert (resource_sample.user_ns, resource_sample.cpu_limit) == (7, 0.5)
    assert isinstance(resource_sample.resident_bytes, Missing)


def test_threads_are_on_the_wall_clock(tmp_path):
    """With those of Python that stand in threads of others, whose time is not known."""
    threads = {
        "since_ns": MONO_NS + 2,
        "python": [["worker", 1, 5, False, "job.py", 3, "work", True]],
        "guests": [["job.py", 7, "load", False]],
        "native": [["tf_Compute", 2, 4]],
        "unmapped": 0,
    }
    lines = [
        {"mono_ns": MONO_NS + 9, "steps": 4, "thread_times": threads},
        {"mono_ns": MONO_NS + 10, "steps": 5, "thread_times": None},
        {"mono_ns": MONO_NS + 11, "steps": 6},
    ]

    first, second, older = (
        resource_sample.thread_times
        for resource_sample in _load(tmp_path, resource_samples=lines).resource_samples
    )

    assert not isinstance(first, Missing)
    assert first.since_ns == UNIX_NS + 2
    assert [(each.name, each.line, each.is_in_python) for each in first.threads] == [
        ("worker", 3, True),
        ("", 7, False),
        ("tf_Compute", 0, False),
    ]
    assert isinstance(first.threads[1].cpu_ns, Missing)
    assert isinstance(second, Missing)
    assert isinstance(older, Missing)
    assert "version" in older.reason


def test_accelerators_are_a_machines(tmp_path):
    """A sample of NVML belongs to a host, not to a process."""
    line = {"unix_ns": UNIX_NS, "devices": [{"index": 1, "name": "H200", "power_watts": 90.5}]}

    (resource_sample,) = _load(tmp_path, machine=[line]).resource_samples

    (device,) = resource_sample.devices
    assert (resource_sample.process, resource_sample.host, resource_sample.at_ns) == (
        None,
        HOST,
        UNIX_NS,
    )
    assert (device.index, device.name, device.power_watts) == (1, "H200", 90.5)
    assert isinstance(device.utilization_ratio, Missing)
    assert isinstance(resource_sample.user_ns, Missing)


def test_lines_that_are_no_pulses_are_a_problem_with_its_place(tmp_path):
    """In the process's file and in the machine's."""
    profile = _load(tmp_path, resource_samples=[{}], machine=[{}, {}])

    told = [(problem.where, problem.what) for problem in profile.problems]
    (folder,) = [process.folder for process in profile.processes]
    assert (f"{HOST}/{folder}", "1 lines of pulses.jsonl are no pulses.") in told
    assert (f"machine/{HOST}.jsonl", "2 lines of it are no samples.") in told


def test_settings_are_those_of_the_first_sample(tmp_path):
    """A process that took none says so."""
    chosen = {"cpus": 3, "environment": {"OMP_NUM_THREADS": "2"}}

    (process,) = _load(tmp_path / "a", {"event": "settings", "settings": chosen}).processes
    (other,) = _load(tmp_path / "b", {"event": "settings", "settings": [1]}).processes

    assert process.settings == chosen
    assert other.settings == NO_SETTINGS


@pytest.mark.parametrize("environment", [5, "x", ["TF_XLA_FLAGS"], True])
def test_an_environment_that_is_none_has_no_variables(tmp_path, environment):
    """A damaged file may hold anything in its place; findings ask it for variables."""
    told = {"event": "settings", "settings": {"jit": True, "environment": environment}}

    (process,) = _load(tmp_path / "a", told).processes

    assert process.settings == {"jit": True, "environment": {}}


def test_a_step_tells_what_it_was_fed_and_gave_back(tmp_path):
    """Null is told apart from not told at all."""
    sample = {"event": "sample", "work": 0, "step": 2, "capture": CAPTURE, "start_ns": MONO_NS}
    told = {"fed_bytes": 161, "result_bytes": 4}

    (known,) = _load(tmp_path / "a", {**sample, **told}).captures
    (null,) = _load(tmp_path / "b", {**sample, "fed_bytes": None, "result_bytes": None}).captures
    (older,) = _load(tmp_path / "c", sample).captures

    assert (known.fed_bytes, known.result_bytes) == (161, 4)
    assert (null.fed_bytes, null.result_bytes) == (NOT_FED, NO_TENSORS)
    assert older.fed_bytes == older.result_bytes == Missing("not in the recording")


def test_a_profiler_of_the_job_is_open_while_no_step_can_be_traced(tmp_path):
    """By the longest time between two samples, with the line that started it."""
    why = {"event": "declined", "work": 0, "why": "the job is profiling", "request": None}

    (process,) = _load(
        tmp_path,
        {"unix_ns": UNIX_NS, "event": "profiling", "file": "train.py", "line": 7},
        {"unix_ns": UNIX_NS + 10, "step": 5, "times": 1, **why},
        {"unix_ns": UNIX_NS + 40, "step": 9, "times": 3, **why},
        {"unix_ns": UNIX_NS + 50, "event": "sample", "capture": CAPTURE, "work": 0, "step": 10},
        {"unix_ns": UNIX_NS + 60, "step": 11, "times": 1, **why},
    ).processes

    assert process.own_profiler == OwnProfiler(4, 30, "train.py", 7)


def test_a_process_that_traced_no_step_says_why(tmp_path):
    """By the latest reason; one traced step is enough for there to be none."""
    facts = {"event": "declined", "work": 0, "step": 5, "times": 1, "request": None}
    sample = {"event": "sample", "capture": CAPTURE, "work": 0, "step": 10}

    (declined,) = _load(
        tmp_path / "a", {**facts, "why": "the job is profiling"}, {**facts, "why": "a daemon"}
    ).processes
    (traced,) = _load(tmp_path / "b", {**facts, "why": "a daemon"}, sample).processes

    assert (declined.untraced, traced.untraced) == ("a daemon", "")


def test_a_step_tells_the_line_that_ran_it(tmp_path):
    """Of recordings that do not, or of none of the job's lines, it is not known."""
    sample = {"event": "sample", "work": 0, "step": 2, "capture": CAPTURE, "start_ns": MONO_NS}
    lines = [{"called_at": ["train.py", 7]}, {"called_at": ["", 0]}, {"called_at": 5}, {}]

    loaded = [_load(tmp_path / str(at), {**sample, **line}) for at, line in enumerate(lines)]

    assert [each.captures[0].called_at for each in loaded] == ["train.py:7", "", "", ""]
