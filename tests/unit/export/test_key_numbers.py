"""The numbers that a tracker gets are those of the report, and those that it has."""

from __future__ import annotations

from typing import Any

from tfprobe.export.key_numbers import key_numbers


def loop(count: int, total_us: float | None, name: str = "train_step") -> dict[str, Any]:
    return {
        "kind": "jit",
        "name": name,
        "count": count,
        "sampled": 2,
        "total_us": total_us,
        "p50_us": 900.0,
        "p95_us": None,
    }


def report(*loops: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """Return a report of processes with one loop each."""
    cost = {"fraction": 0.01}
    processes = [{"work": [each], "overhead": cost} for each in loops]
    return {"processes": processes, "findings": [], "account": None, "breakdown": None, **parts}


def test_one_process_has_its_quantiles() -> None:
    """In ms; one that is not known is left out."""
    assert key_numbers(report(loop(10, 10_000.0))) == {
        "tfprobe/steps": 10,
        "tfprobe/traced_steps": 2,
        "tfprobe/step_ms": 1,
        "tfprobe/step_p50_ms": 0.9,
        "tfprobe/recording_ratio": 0.01,
        "tfprobe/findings": 0,
    }


def test_several_processes_have_a_common_mean_and_no_quantiles() -> None:
    """Of the loop with most time; another loop does not count."""
    numbers = key_numbers(
        report(loop(10, 10_000.0), loop(30, 90_000.0), loop(5, 50_000.0, "evaluate"))
    )

    assert numbers["tfprobe/steps"] == 40
    assert numbers["tfprobe/step_ms"] == 2.5
    assert "tfprobe/step_p50_ms" not in numbers


def test_what_is_not_known_is_not_a_number() -> None:
    """Times of queued steps that nobody waited for, an account that is missing, costs too."""
    unknown = report(loop(10, None), account={"missing": "too short"}, breakdown={"missing": "-"})
    unknown["processes"][0]["overhead"] = {"missing": "it was killed"}

    assert key_numbers(unknown) == {"tfprobe/findings": 0}


def test_shares_are_those_of_account_and_breakdown() -> None:
    """Each category, and the stages of a step with all their parts."""
    account = {
        "wall_us": 2e6,
        "goodput_ratio": 0.5,
        "parts": [{"part": "imports", "ratio": 0.25}],
    }
    breakdown = {"before": {"input_wait": 0.1, "feed": 0.1}, "on": {}, "after": {}, "other": 0.8}

    numbers = key_numbers(report(loop(1, 1.0), account=account, breakdown=breakdown))

    assert numbers["tfprobe/wall_s"] == 2
    assert numbers["tfprobe/goodput_ratio"] == 0.5
    assert numbers["tfprobe/wall/imports_ratio"] == 0.25
    assert numbers["tfprobe/step/before_ratio"] == 0.2
    assert numbers["tfprobe/step/other_ratio"] == 0.8
