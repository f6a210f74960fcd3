"""pulses.jsonl and a machine's file are read line by line; what is no number is not told."""

from __future__ import annotations

import json
import random

import pytest

from tfprobe.errors import Missing
from tfprobe.profile.activities import NOT_NOTED
from tfprobe.runs.process_folder.resource_samples import (
    NO_CLOCK,
    NO_THREADS,
    SINCE_ITS_START,
    machine_log,
    resource_sample_log,
)

RESOURCE_SAMPLE = {"mono_ns": 5, "steps": 2, "user_ns": 70, "cpu_limit": 1.5, "load_1min": 3}
DEVICE = {
    "index": 0,
    "name": "H200",
    "utilization_ratio": 0.5,
    "power_watts": 300,
    "sm_clock_hz": 9,
}


def _written(tmp_path, *lines: object):
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _read(log):
    return log.read().things, log.bad_lines


def _sample(tmp_path, **changes):
    path = _written(tmp_path, {**RESOURCE_SAMPLE, **changes})
    ((sample,), _) = _read(resource_sample_log(path, process=1, shift_ns=100))
    return sample


def test_a_pulse_is_read(tmp_path):
    """Numbers by name; what is absent is not told."""
    sample = _sample(tmp_path, gc_pauses=[[1, 3], [3, 1], [2]])

    assert (sample.process, sample.at_ns, sample.steps, sample.user_ns) == (1, 105, 2, 70)
    assert (sample.cpu_limit, sample.load_1min) == (1.5, 3.0)
    assert isinstance(sample.resident_bytes, Missing)
    assert sample.gc_pauses == ((101, 103),)
    assert not sample.at_exit


def test_a_pulse_at_exit_says_so(tmp_path):
    """Whatever else stands there does not."""
    lines = [{**RESOURCE_SAMPLE, "at_exit": told} for told in (True, False, None, "true", 1)]

    samples, _ = _read(resource_sample_log(_written(tmp_path, *lines)))

    assert [sample.at_exit for sample in samples] == [True, False, False, False, False]


@pytest.mark.parametrize("value", [-1, "7", True, None, [], 1 << 80])
def test_a_number_that_makes_no_sense_is_not_told(tmp_path, value):
    """The others of its line are."""
    sample = _sample(tmp_path, user_ns=value)

    assert isinstance(sample.user_ns, Missing)
    assert sample.cpu_limit == 1.5


def test_lines_without_their_time_are_counted(tmp_path):
    """They stand nowhere."""
    lines = [RESOURCE_SAMPLE, {"steps": 1}, {**RESOURCE_SAMPLE, "steps": -1}, [3]]

    samples, bad_lines = _read(resource_sample_log(_written(tmp_path, *lines)))

    assert (len(samples), bad_lines) == (1, 3)


def test_a_machines_accelerators_are_read(tmp_path):
    """Each with what NVML told of it."""
    reasons = {**DEVICE, "index": 1, "throttle_reasons": ["power cap"]}
    path = _written(tmp_path, {"unix_ns": 8, "devices": [DEVICE, reasons, {}, 3]}, {})

    ((sample,), bad_lines) = _read(machine_log(path, "node7"))

    assert (sample.process, sample.host, sample.at_ns) == (None, "node7", 8)
    first, second = sample.devices
    assert (first.index, first.name, first.sm_clock_hz) == (0, "H200", 9)
    assert (first.utilization_ratio, first.power_watts) == (0.5, 300.0)
    assert isinstance(first.power_limit_watts, Missing)
    assert (second.index, second.throttle_reasons) == (1, ("power cap",))
    assert isinstance(sample.user_ns, Missing)
    assert bad_lines == 1


def test_absent_files_hold_nothing(tmp_path):
    """A recording of an older tfprobe, a machine without accelerators."""
    assert _read(resource_sample_log(tmp_path / "no")) == ([], 0)
    assert _read(machine_log(tmp_path / "no", "node7")) == ([], 0)


@pytest.mark.parametrize("open_log", [resource_sample_log, lambda path: machine_log(path, "node7")])
def test_any_damage_leaves_a_readable_log(tmp_path, open_log):
    """Random bytes anywhere never stop the reader."""
    line = json.dumps({**RESOURCE_SAMPLE, "unix_ns": 3, "devices": [DEVICE]}) + "\n"
    path = tmp_path / "lines.jsonl"
    rng = random.Random(3)
    for _ in range(200):
        content = bytearray(line.encode() * 4)
        for _ in range(rng.randrange(1, 30)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(bytes(content[: rng.randrange(len(content))]))

        samples, bad_lines = _read(open_log(path))

        assert len(samples) + bad_lines <= 34


THREADS = {
    "since_ns": 3,
    "python": [["MainThread", 1, 70, True, "", 0, "", False]],
    "guests": [["job.py", 7, "load", True]],
    "native": [["tf_Compute", 2, 30]],
    "unmapped": 1,
    "cost_ns": 9,
}


def test_the_time_of_threads_is_read(tmp_path):
    """Of Python's threads with their place, of the kernel's by name."""
    times = _sample(tmp_path, thread_times=THREADS).thread_times

    main, guest, native = times.threads
    assert (times.since_ns, times.unmapped) == (103, 1)
    assert (main.name, main.cpu_ns, main.runs_steps, main.file) == ("MainThread", 70, True, "")
    assert (guest.cpu_ns, guest.file, guest.line, guest.is_in_python) == (
        NO_CLOCK,
        "job.py",
        7,
        True,
    )
    assert (native.name, native.is_python, native.count, native.cpu_ns) == (
        "tf_Compute",
        False,
        2,
        30,
    )


@pytest.mark.parametrize(
    ("fields", "reason"), [({}, NO_THREADS), ({"thread_times": None}, NOT_NOTED)]
)
def test_a_line_without_threads_says_if_others_have_them(tmp_path, fields, reason):
    """Earlier versions noted none; since then not each line has them."""
    assert _sample(tmp_path, **fields).thread_times == reason


@pytest.mark.parametrize(
    "row",
    [
        None,
        [],
        ["a", 1],
        [1, 1, 5, True, "", 0, "", False],
        ["a", 1, -5, True, "", 0, "", False],
        ["a", True, 5, True, "", 0, "", False],
        ["a", 1, 1 << 63, True, "", 0, "", False],
        ["a", 1, 5, 1, "", 0, "", False],
        ["a", 1, 5, True, "", "0", "", False],
        ["a", 1, 5, True, None, 0, "", False],
    ],
)
def test_rows_of_threads_that_make_no_sense_are_left_out(tmp_path, row):
    """The others of their line are read, and so is the line."""
    damaged = {"python": [row, THREADS["python"][0]], "guests": [row], "native": [row, 5]}

    times = _sample(tmp_path, thread_times=damaged).thread_times

    assert [thread.name for thread in times.threads] == ["MainThread"]
    assert (times.since_ns, times.unmapped) == (SINCE_ITS_START, 0)


@pytest.mark.parametrize("value", [5, [], "x", True, {"python": 7, "native": {}, "unmapped": -1}])
def test_threads_that_are_none_are_not_told(tmp_path, value):
    """The pulse is."""
    sample = _sample(tmp_path, thread_times=value)

    assert sample.user_ns == 70
    assert sample.thread_times == NOT_NOTED or sample.thread_times.threads == ()
