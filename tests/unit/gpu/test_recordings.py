"""What tfprobe says of loops that ran on a GPU, beside what their programs know of themselves."""

from __future__ import annotations

import json
import statistics
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfprobe.analysis.breakdown.cycles import run_breakdown
from tfprobe.analysis.breakdown.step_parts import ON_DEVICE, Part
from tfprobe.errors import Missing
from tfprobe.findings.engine import Advice, advise
from tfprobe.findings.finding import Finding, Severity
from tfprobe.profile.profile import Loop, Profile
from tfprobe.profile.reader.run_reader import RunReader
from tfprobe.recording import open_run
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine

RECORDINGS = Path(__file__).parent / "recordings"
QUEUED = ("training", "asynchronous", "kernel_bound")


class Recorded:
    """A recorded run and the truth about it."""

    def __init__(self, run: Path) -> None:
        self.recording = open_run(run)
        self.profile: Profile = self.recording.profile()
        self.truth: dict[str, Any] = json.loads((run / "truth.json").read_text())

    @property
    def loop(self) -> Loop:
        (name, _), *_ = self.truth["counts"].items()
        return next(loop for loop in self.profile.loops if loop.name == name)

    @property
    def plain_ms(self) -> list[tuple[float, float]]:
        """The time of a step in each stretch without a traced step: told and true."""
        recent, pairs = self.loop.recent, []
        traced = [int(row) + recent.first_step for row in recent.sampled.nonzero()[0]]
        for first, steps, ns in self.truth["stretches"]:
            low = first + self.truth["warm_up"]
            if low + steps > len(recent.end_ns):
                continue
            if not any(low - steps <= step < low + steps for step in traced):
                told_ns = recent.end_ns[low + steps - 1] - recent.end_ns[low - 1]
                pairs.append((float(told_ns) / steps / 1e6, ns / steps / 1e6))
        return pairs

    @property
    def device_ratio(self) -> float:
        found = run_breakdown(self.profile)
        assert not isinstance(found, Missing)
        return sum(found.shares[part] for part in ON_DEVICE)

    def share(self, *parts: Part) -> float:
        found = run_breakdown(self.profile)
        assert not isinstance(found, Missing)
        return sum(found.shares[part] for part in parts)

    @property
    def advice(self) -> Advice:
        return advise(self.profile)

    def finding(self, rule: str) -> Finding | None:
        return next((each for each in self.advice.findings if each.rule == rule), None)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recorded]:
    """Unpack and read a recording; each once."""
    known: dict[str, Recorded] = {}

    def read(name: str) -> Recorded:
        if name not in known:
            to = tmp_path_factory.mktemp(name)
            with tarfile.open(RECORDINGS / f"{name}.tar.xz") as tar:
                tar.extractall(to, filter="data")
            (run,) = to.iterdir()
            known[name] = Recorded(run)
        return known[name]

    return read


@pytest.mark.parametrize("name", [*QUEUED, "memory", "host_bound", "input_bound", "copy_bound"])
def test_all_steps_are_counted(recorded, name):
    """By the programs' own counters."""
    found = recorded(name)

    counted = {loop.name: loop.count for loop in found.profile.loops}
    assert counted == found.truth["counts"]


@pytest.mark.parametrize("name", [*QUEUED, "memory", "host_bound", "input_bound"])
def test_steps_take_as_long_as_the_program_says(recorded, name):
    """The middle of all stretches between two waits, by its own clock."""
    pairs = recorded(name).plain_ms

    told, true = (statistics.median(side) for side in zip(*pairs, strict=True))
    assert told == pytest.approx(true, rel=0.02)


@pytest.mark.parametrize("name", QUEUED)
def test_single_steps_are_those_of_the_device(recorded, name):
    """Calls return long before the device has run them, and one in ten or fifty is waited for."""
    found = recorded(name)
    recent, true_ms = found.loop.recent, statistics.median(true for _, true in found.plain_ms)

    step_ms = (recent.end_ns - recent.start_ns)[60:][~recent.sampled[60:]] / 1e6

    assert found.loop.queue is not None
    # The device is faster after it has rested while a trace was written.
    assert np.quantile(step_ms, 0.05) > 0.92 * true_ms
    assert np.quantile(step_ms, 0.95) < 1.05 * true_ms


@pytest.mark.parametrize("name", ["host_bound", "input_bound"])
def test_a_loop_that_waits_for_its_host_is_left_as_it_is(recorded, name):
    """Its calls return when there is nothing left to run."""
    assert recorded(name).loop.queue is None


def test_the_device_is_busy_where_the_program_keeps_it_busy(recorded):
    """A traced step runs alone, on a host that is slowed down by the trace."""
    for name in (*QUEUED, "memory"):
        assert recorded(name).device_ratio > 0.95


def test_the_device_is_idle_where_the_host_is_slow(recorded):
    """15 us of kernels in a step of 1 ms: the trace makes that 4 ms."""
    found = recorded("host_bound")
    busy_ms = 0.0145
    true_ms = statistics.median(true for _, true in found.plain_ms)

    assert found.device_ratio == pytest.approx(busy_ms / true_ms, abs=0.005)


def test_slow_input_takes_its_share(recorded):
    """10 ms of 35 ms; the copy of the batch is another 9 ms."""
    found = recorded("input_bound")

    share = found.share(Part.INPUT_WAIT, Part.HOST_PREPROCESS, Part.FEED)
    assert share == pytest.approx(found.truth["input_ratio"], abs=0.02)


@pytest.mark.parametrize("name", [*QUEUED, "memory"])
def test_nothing_in_a_busy_loop_is_called_slow(recorded, name):
    """Neither waits for the device nor its idle moments in a trace; it starts late, in truth."""
    serious = {
        each.rule for each in recorded(name).advice.findings if each.severity > Severity.INFO
    }

    assert serious <= {"slow_start"}


def test_many_launches_are_found(recorded):
    """2,000 training steps of tiny layers."""
    rules = [each.rule for each in recorded("host_bound").advice.findings]

    assert rules[:2] == ["accelerator_idle", "launch_bound"]


def test_pageable_copies_are_found_first(recorded):
    """One copy a step, of 256 MiB; what would help is named, and more workers would not."""
    first, second, *_ = recorded("copy_bound").advice.findings

    assert {first.rule, second.rule} == {"input_bound", "copies_pageable"}
    assert first.fixes == second.fixes == ("pin_memory",)
    assert "pin_memory=True" in first.action
    assert recorded("copy_bound").finding("op_on_host") is None


def test_commands_with_and_without_traces_agree(recorded):
    """`steps` reads no traces but those that tell when devices have run the steps."""
    found = recorded("training")

    (loop,) = open_run(found.recording.directory).loops

    assert loop.times.sum_ns == found.loop.times.sum_ns
    assert loop.recent.end_ns.tolist() == found.loop.recent.end_ns.tolist()
    assert loop.queue == found.loop.queue


def test_what_has_not_changed_is_not_read_as_news(recorded):
    """Neither a followed run nor a page computes anything again."""
    reader = RunReader(RunFolder(recorded("training").recording.directory), this_machine())

    first = reader.refresh()

    assert any(loop.queue is not None for loop in first.loops)
    assert reader.refresh() is first
