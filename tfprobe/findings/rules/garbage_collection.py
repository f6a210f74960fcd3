"""Tell of Python's garbage collector at work while steps run."""

from __future__ import annotations

from tfprobe.analysis.account.categories import BEFORE_STEPS, Category
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import ProcessSignals
from tfprobe.findings.thresholds import Thresholds

# Without collections of what is there all the time, few are left.
LIKELY = 0.8


def check(process: ProcessSignals, limits: Thresholds) -> Verdict:
    """Return a finding where collections take a share of the process, but for its start."""
    account = process.account
    if isinstance(account, Missing):
        return account
    found = [each for each in account.items(Category.COLLECTION) if each.what != BEFORE_STEPS]
    high_ns = sum(each.ns for each in found)
    gain = process.of_wall(high_ns, round(LIKELY * high_ns))
    if not found or gain.high_ratio < limits.collection_ratio:
        return None
    source = next((each.source for each in found if each.source), "")
    asked = "Take the calls of gc.collect() out of the loop" if source else "Call gc.freeze() once"
    return Finding(
        title="Python's garbage collector runs for long while steps run",
        severity=limits.severity(gain),
        evidence=tuple(Evidence(each.what, time_ns=each.ns, source=each.source) for each in found),
        action=f"{asked}{', or' if source else ' after the first steps (Python 3.7), or'} "
        "collect less often: gc.set_threshold(100_000, 50, 50).",
        gain=gain,
        part="garbage_collection",
    )
