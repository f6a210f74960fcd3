"""pulses.jsonl and a machine's file are read line by line; what is no number is not told."""

from __future__ import annotations

import json
import random

import pytest

from tfprobe.store.pulses import read_machine, read_pulses

PULSE = {"mono_ns": 5, "steps": 2, "user_ns": 70, "cpu_limit": 1.5, "load_1min": 3}
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
    (line,) = read_pulses(_written(tmp_path, PULSE)).lines

    assert (line.mono_ns, line.steps, line.counts["user_ns"]) == (5, 2, 70)
    assert (line.ratios["cpu_limit"], line.ratios["load_1min"]) == (1.5, 3.0)
    assert line.counts["resident_bytes"] is None
    assert not line.at_exit


def test_a_pulse_at_exit_says_so(tmp_path):
    """Whatever else stands there does not."""
    lines = [{**PULSE, "at_exit": told} for told in (True, False, None, "true", 1)]

    log = read_pulses(_written(tmp_path, *lines))

    assert [line.at_exit for line in log.lines] == [True, False, False, False, False]


@pytest.mark.parametrize("value", [-1, "7", True, None, [], 1 << 80])
def test_a_number_that_makes_no_sense_is_not_told(tmp_path, value):
    """The others of its line are."""
    (line,) = read_pulses(_written(tmp_path, {**PULSE, "user_ns": value})).lines

    assert (line.counts["user_ns"], line.ratios["cpu_limit"]) == (None, 1.5)


def test_lines_without_their_time_are_counted(tmp_path):
    """They stand nowhere."""
    log = read_pulses(_written(tmp_path, PULSE, {"steps": 1}, {**PULSE, "steps": -1}, [3]))

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
    assert read_pulses(tmp_path / "no").lines == ()
    assert read_machine(tmp_path / "no").lines == ()


@pytest.mark.parametrize("read", [read_pulses, read_machine])
def test_any_damage_leaves_a_readable_log(tmp_path, read):
    """Random bytes anywhere never stop the reader."""
    line = json.dumps({**PULSE, "unix_ns": 3, "devices": [DEVICE]}) + "\n"
    path = tmp_path / "lines.jsonl"
    rng = random.Random(3)
    for _ in range(200):
        content = bytearray(line.encode() * 4)
        for _ in range(rng.randrange(1, 30)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(bytes(content[: rng.randrange(len(content))]))

        log = read(path)

        assert len(log.lines) + log.bad_lines <= 34
