"""Hold what one process tells for `report` and `advise`, both by one reading of its captures."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from tfprobe.analysis.account.account import accounts
from tfprobe.analysis.breakdown.cycles import by_work
from tfprobe.analysis.system import application
from tfprobe.findings import gather
from tfprobe.findings.gather import SignalsPart
from tfprobe.findings.thresholds import Thresholds
from tfprobe.profile.profile import Profile
from tfprobe.profile.reader.traced_steps import dearest
from tfprobe.query.engine import Needs, Question
from tfprobe.query.shards import Shard
from tfprobe.report.documents import run_report
from tfprobe.report.documents.run_report import ReportPart
from tfprobe.runs.layout import RunFolder

# Another number whenever a process tells something else.
_VERSION = 4


@dataclass(frozen=True, slots=True)
class Told:
    """What a process tells. `is_joined`: its dearest work is joined with its graph and code."""

    report: ReportPart
    signals: SignalsPart
    is_joined: bool


def question(limits: Thresholds, *, is_joined: bool) -> Question[Told]:
    """Return what each process is asked."""
    return Question(
        "report",
        _VERSION,
        functools.partial(tell, limits=limits, is_joined=is_joined),
        # Advice knows the memory of accelerators alone.
        needs=Needs(host_allocations=False),
        kept_as=Told,
        details=repr((limits, is_joined)),
    )


def tell(profile: Profile, shard: Shard, *, limits: Thresholds, is_joined: bool) -> Told:
    """Return what a process tells, by its profile."""
    works = by_work(profile)
    did = application.activities(profile)
    found = accounts(profile, works)
    joined = dearest(RunFolder(Path(shard.run)), profile) if is_joined else ()
    return Told(
        report=run_report.part(profile, works, found),
        signals=gather.part(profile, joined, limits, works, did, found),
        is_joined=is_joined,
    )
