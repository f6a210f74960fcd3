"""Say in one line how far a run has come, for logs."""

from __future__ import annotations

from datetime import datetime, timezone

from tfprobe.errors import Missing
from tfprobe.printable import printable
from tfprobe.report.documents.run_report import Report, WorkReport
from tfprobe.report.format import numbers

_S = 1_000_000_000


def line(report: Report, *, at_unix_ns: int) -> str:
    """Return the time, UTC, the state, and the work with most time of all processes."""
    at = datetime.fromtimestamp(at_unix_ns // _S, tz=timezone.utc)
    processes = len(report.processes)
    facts = [
        f"{at:%Y-%m-%d %H:%M:%S} {report.run.state}",
        "1 process" if processes == 1 else f"{processes} processes",
        *_steps(report),
    ]
    captures = sum(each.process.captures for each in report.processes)
    facts.append("1 capture" if captures == 1 else f"{numbers.count(captures)} captures")
    return printable(" · ".join(facts))


def _steps(report: Report) -> list[str]:
    works = [work for process in report.processes for work in process.works]
    if not works:
        return ["no step yet" if report.run.state == "running" else "no step"]
    busiest = max(works, key=lambda item: item.work.times.sum_ns)
    count = sum(item.work.count for item in works)
    return [f"{numbers.count(count)} steps", _work(busiest)]


def _work(item: WorkReport) -> str:
    name = f"{item.work.kind} {item.work.name}"
    if isinstance(item.times, Missing):
        return name
    return f"{name} p50 {numbers.duration(item.times.p50_ns)}"
