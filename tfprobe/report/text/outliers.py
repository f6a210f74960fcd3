"""Lay out the steps and gaps that stand out: how many, what they cost, why, and the longest."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from tfprobe.analysis.steps.outliers import Outlier, Outliers, Period, by_cause
from tfprobe.analysis.steps.slow_step_causes import Cause
from tfprobe.analysis.steps.slow_step_causes import told as told_of
from tfprobe.errors import Missing
from tfprobe.report.documents.step_report import WorkSteps
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import Column

# The longest of steps and gaps together; --json has a hundred of each.
SHOWN_OUTLIERS = 5
_SHOWN_CAUSES = 3
# Less of the time of all steps is not worth a row each.
_ROWS_FROM_RATIO = 0.001

_COLUMNS = (
    Column("", is_number=False),
    Column("took"),
    Column("usual"),
    Column("z", may_go=True),
    Column("what happened then", is_number=False, may_be_cut=True),
)


def lines_of(each: WorkSteps) -> Iterator[str]:
    """Give a line on slow steps and one on long gaps."""
    if isinstance(each.slow_steps, Outliers):
        yield _line("Slow steps", each.slow_steps, each)
    if isinstance(each.long_gaps, Outliers) and each.long_gaps.found:
        yield _line("Long gaps", each.long_gaps, each)


def table_of(each: WorkSteps, width: int) -> Text | None:
    """Return a table of the longest of both, None where none is worth it."""
    known = [o for o in (each.slow_steps, each.long_gaps) if isinstance(o, Outliers)]
    rows = [
        (outlier, of)
        for of in known
        if of.share_ratio >= _ROWS_FROM_RATIO
        for outlier in of.found[:SHOWN_OUTLIERS]
    ]
    rows.sort(key=lambda row: -row[0].excess_ns)
    if not rows:
        return None
    return page.table(_COLUMNS, [_row(*row) for row in rows[:SHOWN_OUTLIERS]], width=width)


def _line(label: str, found: Outliers, each: WorkSteps) -> str:
    looked_at = numbers.count(found.looked_at)
    of_last = "" if each.remembered.is_whole else " the last"
    if not found.found:
        return f"{label}: none of{of_last} {looked_at} stands out."
    share = numbers.percent(found.share_ratio)
    text = (
        f"{label}: {numbers.count(len(found.found))} of{of_last} {looked_at} took "
        f"{numbers.duration(found.excess_ns)} more than usual, {share} of the time"
    )
    causes = by_cause(found)
    told = [
        f"{numbers.duration(excess_ns)} {told_of(cause)}"
        for cause, _, excess_ns in causes[:_SHOWN_CAUSES]
    ]
    why = f": {', '.join(told)}" if len(causes) > 1 or isinstance(causes[0][0], Cause) else ""
    return f"{text}{why}.{''.join(f' {_period(each)}' for each in found.periods)}"


def _period(period: Period) -> str:
    return (
        f"{_every(period).capitalize()} from {numbers.count(period.first)} on "
        f"({period.times} of {period.turns})."
    )


def _every(period: Period) -> str:
    return "every second" if period.every == 2 else f"every {numbers.ordinal(period.every)}"


def _row(outlier: Outlier, found: Outliers) -> list[str]:
    place = "before " if outlier.is_gap else "step "
    return [
        f"{place}{numbers.count(outlier.step)}",
        numbers.duration(outlier.duration_ns),
        numbers.duration(found.usual_ns),
        f"{outlier.z:.0f}",
        _why(outlier, found),
    ]


def _why(outlier: Outlier, found: Outliers) -> str:
    """Tell the cause, and what it is one of."""
    told = told_of(outlier.cause)
    for period in found.periods:
        if (outlier.step - period.first) % period.every == 0 and outlier.step > 0:
            why = f"why is {told}" if isinstance(outlier.cause, Missing) else told
            return f"{_every(period)}; {why}"
    return told
