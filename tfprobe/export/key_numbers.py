"""Key numbers of a report, as metrics of an experiment tracker: step time, shares, cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# Before each name, so that they stand together among the metrics of the job.
PREFIX = "tfprobe/"
_US_PER_MS = 1e3
_US_PER_S = 1e6

# Any: a JSON document, as `tfprobe report --json` prints it.
Json = Mapping[str, Any]


def key_numbers(report: Json) -> dict[str, float]:
    """Return the numbers of a report by name, those that it has. Units are in the names.

    Ratios are 0 to 1. Step times are those of the loop with most time.
    """
    numbers = (
        *_of_account(report.get("account") or {}),
        *_of_steps(report),
        *_of_breakdown(report.get("breakdown") or {}),
        *_of_cost(report["processes"]),
        ("findings", len(report["findings"])),
    )
    return {f"{PREFIX}{name}": float(value) for name, value in numbers if value is not None}


def _of_account(account: Json) -> Iterator[tuple[str, float | None]]:
    wall_us = account.get("wall_us")
    yield "wall_s", None if wall_us is None else wall_us / _US_PER_S
    yield "goodput_ratio", account.get("goodput_ratio")
    for part in account.get("parts") or ():
        yield f"wall/{part['part']}_ratio", part["ratio"]


def _of_steps(report: Json) -> Iterator[tuple[str, float | None]]:
    """Yield the steps of the main loop, of all processes that ran it."""
    loops = [loop for process in report["processes"] for loop in process["work"]]
    timed = [loop for loop in loops if loop.get("total_us") is not None]
    if not timed:
        return
    longest = max(timed, key=lambda loop: loop["total_us"])
    same = [loop for loop in timed if _name(loop) == _name(longest)]
    count = sum(loop["count"] for loop in same)
    yield "steps", count
    yield "traced_steps", sum(loop["sampled"] for loop in same)
    if count:
        yield "step_ms", sum(loop["total_us"] for loop in same) / count / _US_PER_MS
    if len(same) == 1:
        # Quantiles of several processes are not those of all their steps.
        for quantile in ("p50", "p95"):
            value_us = longest[f"{quantile}_us"]
            yield f"step_{quantile}_ms", None if value_us is None else value_us / _US_PER_MS


def _name(loop: Json) -> tuple[str, str]:
    return loop["kind"], loop["name"]


def _of_breakdown(breakdown: Json) -> Iterator[tuple[str, float | None]]:
    for stage in ("before", "on", "after"):
        parts = breakdown.get(stage)
        yield f"step/{stage}_ratio", sum(parts.values()) if isinstance(parts, Mapping) else None
    yield "step/other_ratio", breakdown.get("other")


def _of_cost(processes: Sequence[Json]) -> Iterator[tuple[str, float | None]]:
    """Yield what recording cost the process that it cost most."""
    known = [process["overhead"] for process in processes]
    ratios = [
        cost["fraction"] for cost in known if isinstance(cost, Mapping) and "fraction" in cost
    ]
    yield "recording_ratio", max(ratios, default=None)
