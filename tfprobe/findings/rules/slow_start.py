"""Tell of a process that prepares for long before its first step."""

from __future__ import annotations

from tfprobe.analysis.account.categories import BEFORE_STEPS, Category
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import ProcessSignals
from tfprobe.findings.thresholds import Thresholds

# What is prepared has to be read at least.
LIKELY = 0.5
_SHOWN = 3


def check(process: ProcessSignals, limits: Thresholds) -> Verdict:
    """Return a finding where data and models take a share of the whole process; imports do not.

    Garbage that is collected meanwhile is theirs. What is made anew between steps is none of it.
    """
    account = process.account
    if isinstance(account, Missing):
        return account
    collected = account.items(Category.COLLECTION)
    collected_ns = sum(each.ns for each in collected if each.what == BEFORE_STEPS)
    high_ns = account.prepared_ns + collected_ns
    gain = process.of_wall(high_ns, round(LIKELY * high_ns))
    if not account.steps or gain.high_ratio < limits.preparation_ratio:
        return None
    items = account.items(Category.PREPARATION)
    has_line = any(each.source for each in items[:_SHOWN])
    return Finding(
        title="The first step comes late",
        severity=limits.severity(gain),
        evidence=(
            *(
                Evidence(each.what or "elsewhere", time_ns=each.ns, source=each.source)
                for each in items[:_SHOWN]
            ),
            *([] if has_line else [Evidence("lines", command="tfprobe run --stacks")]),
        ),
        action="Prepare the data once and keep it (np.save, TFRecord, Dataset.save), read it while "
        "steps run (Dataset.map with prefetch), and load no more than the steps take.",
        gain=gain,
        part="preparation",
    )
