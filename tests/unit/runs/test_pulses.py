"""pulses.jsonl and a machine's file are read line by line; what is no number is not told."""

from __future__ import annotations

import json
import random

import pytest

from tfprobe.runs.process_folder.resource_samples import (
    NO_CLOCK,
    SINCE_ITS_START,
    read_machine,
    read_resource_samples,
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


def test_a_pulse_is_read(tmp_path):
    """Numbers by name; what is absent is not told."""
    (line,) = read_resource_samples(_written(tmp_path, RESOURCE_SAMPLE)).lines

    assert (line.mono_ns, line.steps, line.counts["user_ns"]) == (5, 2, 70)
    assert (line.ratios["cpu_limit"], line.ratios["load_1min"]) == (1.5, 3.0)
    assert line.counts["resident_bytes"] is None
    assert not line.at_exit


def test_a_pulse_at_exit_says_so(tmp_path):
    """Whatever else stands there does not."""
    lines = [{**RESOURCE_SAMPLE, "at_exit": told} for told in (True, False, None, "true", 1)]

    log = read_resource_samples(_written(tmp_path, *lines))

    assert [line.at_exit for line in log.lines] == [True, False, False, False, False]


@pytest.mark.parametrize("value", [-1, "7", True, None, [], 1 << 80])
def test_a_number_that_makes_no_sense_is_not_told(tmp_path, value):
    """The others of its line are."""
    (line,) = read_resource_samples(_written(tmp_path, {**RESOURCE_SAMPLE, "user_ns": value})).lines

    assert (line.counts["user_ns"], line.ratios["cpu_limit"]) == (None, 1.5)


def test_lines_without_their_time_are_counted(tmp_path):
    """They stand nowhere."""
    log = read_resource_samples(
        _written(tmp_path, RESOURCE_SAMPLE, {"steps": 1}, {**RESOURCE_SAMPLE, "steps": -1}, [3])
    )

    assert (len(log.lines), log.bad_lines) == (1, 3)


def test_a_machines_accelerators_are_read(tmp_path):
    """Each with what NVML told of it."""
    reasons = {**DEVICE, "index": 1, "throttle_reasons": ["power cap"]}
    log = read_machine(_written(tmp_path, {"unix_ns": 8, "devices": [DEVICE, reasons, {}, 3]}, {}))

    (line,) = log.lines
    assert (line.unix_ns, [device.index for device in line.devices]) == (8, [0, 1])
    assert line.devices[0].ratios == {
        "utilization_ratio": 0.5,
        "power_watts": 300.0,
        "power_limit_watts": None,
    }
    assert line.devices[1].throttle_reasons == ("power cap",)
    assert log.bad_lines == 1


def test_absent_files_hold_nothing(tmp_path):
    """A recording of an older tfprobe, a machine without accelerators."""
    assert read_resource_samples(tmp_path / "no").lines == ()
    assert read_machine(tmp_path / "no").lines == ()


@pytest.mark.parametrize("read", [read_resource_samples, read_machine])
def test_any_damage_leaves_a_readable_log(tmp_path, read):
    """Random bytes anywhere never stop the reader."""
    line = json.dumps({**RESOURCE_SAMPLE, "unix_ns": 3, "devices": [DEVICE]}) + "\n"
    path = tmp_path / "lines.jsonl"
    rng = random.Random(3)
    for _ in range(200):
        content = bytearray(line.encode() * 4)
        for _ in range(rng.randrange(1, 30)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(bytes(content[: rng.randrange(len(content))]))

        log = read(path)

        assert len(log.lines) + log.bad_lines <= 34


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
    log = read_resource_samples(_written(tmp_path, {**RESOURCE_SAMPLE, "thread_times": THREADS}))

    times = log.lines[0].thread_times
    assert times is not None
    main, guest, native = times.threads
    assert (times.since_ns, times.unmapped) == (3, 1)
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


@pytest.mark.parametrize(("fields", "notes"), [({}, False), ({"thread_times": None}, True)])
def test_a_line_without_threads_says_if_others_have_them(tmp_path, fields, notes):
    """Earlier versions noted none; since then not each line has them."""
    (line,) = read_resource_samples(_written(tmp_path, {**RESOURCE_SAMPLE, **fields})).lines

    assert (line.thread_times, line.notes_threads) == (None, notes)


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

    (line,) = read_resource_samples(
        _written(tmp_path, {**RESOURCE_SAMPLE, "thread_times": damaged})
    ).lines

    assert line.thread_times is not None
    assert [thread.name for thread in line.thread_times.threads] == ["MainThread"]
    assert (line.thread_times.since_ns, line.thread_times.unmapped) == (SINCE_ITS_START, 0)


@pytest.mark.parametrize("value", [5, [], "x", True, {"python": 7, "native": {}, "unmapped": -1}])
def test_threads_that_are_none_are_not_told(tmp_path, value):
    """The pulse is."""
    (line,) = read_resource_samples(
        _written(tmp_path, {**RESOURCE_SAMPLE, "thread_times": value})
    ).lines

    assert line.counts["user_ns"] == 70
    assert line.thread_times is None or line.thread_times.threads == ()
