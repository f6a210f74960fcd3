"""How busy the machine is, as the kernel says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfprobe.trial import pressure


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The kernel's file, before a second of which its clock counts 1.25."""
    path = tmp_path / "cpu"
    clock = iter((10_000_000_000, 11_250_000_000))
    monkeypatch.setattr(pressure, "_PRESSURE", path)
    monkeypatch.setattr(pressure.time, "monotonic_ns", lambda: next(clock))
    return path


def _waits(monkeypatch: pytest.MonkeyPatch, path: Path, total_us: int | None) -> None:
    """Write what the file says at first, and after the wait; without a number it is gone then."""
    form = "some avg10=97.00 avg60=9.00 avg300=1.00 total={}\nfull avg10=0.00 total=7\n"
    path.write_text(form.format(1_000_000))

    def sleep(_seconds: float) -> None:
        path.unlink() if total_us is None else path.write_text(form.format(total_us))

    monkeypatch.setattr(pressure.time, "sleep", sleep)


def test_only_what_waits_from_now_on_counts(told, monkeypatch) -> None:
    """The mean of the last 10 s has the recording that the trial made itself."""
    _waits(monkeypatch, told, 1_050_000)

    assert pressure.cpu_pressure() == pytest.approx(0.04)
    assert not pressure.is_busy(0.04)


def test_it_is_at_most_all_of_the_time(told, monkeypatch) -> None:
    """The kernel may count a little more than our clock."""
    _waits(monkeypatch, told, 9_000_000)

    assert pressure.cpu_pressure() == 1.0


def test_what_is_gone_meanwhile_is_not_known(told, monkeypatch) -> None:
    """Then arms run in turn."""
    _waits(monkeypatch, told, None)

    found = pressure.cpu_pressure()

    assert found is None
    assert not pressure.is_busy(found)


def test_where_the_kernel_measures_none_the_load_tells(told, monkeypatch) -> None:
    """Tasks beyond one for each CPU wait."""
    monkeypatch.setattr(pressure.os, "getloadavg", lambda: (3.0, 0.0, 0.0))
    monkeypatch.setattr(pressure.os, "sched_getaffinity", lambda _pid: {0, 1})

    assert pressure.cpu_pressure() == 0.5
