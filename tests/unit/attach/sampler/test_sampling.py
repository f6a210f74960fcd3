"""How often stacks are read: less often of many processes, of dear stacks, and of long jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfprobe.attach.sampler import sampling
from tfprobe.attach.sampler.processes import JobInterpreter, JobProcesses
from tfprobe.attach.sampler.sampling import FULL_RATE_S, Target, _Sampling, _thrift
from tfprobe.attach.sampler.stack_file import Chunk
from tfprobe.runs.layout import RunFolder

S = 1_000_000_000


@pytest.fixture
def rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return the rate of one of several processes after some time, on a machine of 4 CPUs."""
    monkeypatch.setattr(sampling.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(sampling.time, "monotonic", lambda: 1e6)

    def read(*, processes: int = 1, age_s: float = 0, thrift: float = 1.0) -> int:
        run = RunFolder(tmp_path)
        job = _Sampling(run, JobProcesses(run, "h", 1, is_shared=False, proc=tmp_path), "py-spy")
        target = Target(JobInterpreter(1, 1, 1), 1e6 - age_s, thrift=thrift)
        job._targets = [target] * processes
        return job._rate_per_s(target)

    return read


def test_one_process_is_read_20_times_a_second(rate) -> None:
    """For half an hour."""
    assert rate() == rate(age_s=FULL_RATE_S) == 20


def test_many_processes_share_the_rate(rate) -> None:
    """Each at least once a second."""
    assert [rate(processes=count) for count in (2, 4, 8, 1000)] == [20, 10, 5, 1]


def test_a_long_job_is_read_less_often(rate) -> None:
    """Half as often in each time that is twice as long: its file grows by its logarithm."""
    ages_s = [FULL_RATE_S * factor for factor in (1.5, 3, 6, 1000)]
    assert [rate(age_s=age_s) for age_s in ages_s] == [10, 5, 2, 1]


def test_dear_stacks_are_read_less_often(rate) -> None:
    """As the readers before cost."""
    assert rate(thrift=0.25) == 5


def _chunk(lasted_s: float, cost_s: float) -> Chunk:
    return Chunk(0, int(lasted_s * S), 20, 1, 0, int(cost_s * S), ())


def test_readers_cost_one_percent_of_the_cpus_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a short one the start costs most, which tells nothing; a cheap one is read more often."""
    monkeypatch.setattr(sampling.os, "sched_getaffinity", lambda _: {0, 1})

    found = [
        _thrift(1.0, _chunk(20, 0.8), 1),
        _thrift(1.0, _chunk(20, 0.8), 2),
        _thrift(0.5, _chunk(20, 0.2), 1),
        _thrift(1.0, _chunk(5, 0.5), 1),
    ]

    assert found == pytest.approx([0.5, 0.25, 1.0, 1.0])
