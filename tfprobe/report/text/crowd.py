"""Lay out many processes in few lines: what they have in common, and the few that stand out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from tfprobe.errors import Missing
from tfprobe.report.documents.process_groups import Crowd, Group, StandsOut, Why
from tfprobe.report.documents.run_report import ProcessReport
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import Column

TOP_GROUPS = 12
# Of reasons for which processes have no steps.
TOP_SILENCES = 3


def parts(item: Crowd, *, width: int) -> Iterator[RenderableType]:
    """Yield the processes of a report: their numbers, works by role, and who stands out."""
    yield page.heading(title(item))
    if item.groups:
        columns = [Column(name, is_number=at > 2) for at, name in enumerate(HEADINGS)]
        columns[2] = Column("name", is_number=False, may_be_cut=True)
        columns[0] = Column("role", is_number=False, may_be_cut=True)
        rows = [cells(each) for each in item.groups[:TOP_GROUPS]]
        yield page.table(columns, rows, width=width)
    if len(item.groups) > TOP_GROUPS:
        yield page.paragraph(f"and {len(item.groups) - TOP_GROUPS} more; --json has them")
    yield from (page.paragraph(text) for text in remarks(item))


HEADINGS = ("role", "kind", "name", "processes", "steps", "fastest mean", "median", "slowest")


def title(item: Crowd) -> str:
    """Return how many processes there are, where, and how they ended."""
    hosts = "1 host" if item.hosts == 1 else f"{numbers.count(item.hosts)} hosts"
    states = _several(item.states)
    versions = f" · TensorFlow {_several(item.tensorflows)}" if item.tensorflows else ""
    return f"{numbers.count(item.processes)} processes on {hosts} · {states}{versions}"


def cells(item: Group) -> list[str]:
    """Return the cells of a work; see HEADINGS."""
    role = " ".join(filter(None, (item.program, item.role))) or "-"
    head = [role, item.kind, item.name]
    head += [numbers.count(item.processes), numbers.count(item.steps)]
    if isinstance(item.mean_ns, Missing):
        return [*head, *[numbers.NOTHING] * 3]
    extent = (item.mean_ns.least, item.mean_ns.median, item.mean_ns.most)
    return [*head, *(numbers.duration(each) for each in extent)]


def remarks(item: Crowd) -> Iterator[str]:
    """Give what recording cost, who stands out, and how many more there are."""
    cost = item.recording_ratio
    if isinstance(cost, Missing):
        yield f"recording cost unknown: {cost.reason}"
    else:
        least, middle, most = map(numbers.percent, (cost.least, cost.median, cost.most))
        between = least if least == most else f"{least} to {most}"
        yield f"recording cost {between} of a process" + (
            "" if least == most else f", median {middle}"
        )
    for each in item.stand_out:
        yield f"{name_of(each.report)}: {_why(each)}"
    named = {each.report.process.index for each in item.stand_out}
    rest = item.processes - len(named)
    if rest > 0:
        more = f"and {numbers.count(rest)} more" if named else "none stands out"
        yield f"{more}; --json has all"


def name_of(report: ProcessReport) -> str:
    """Return what tells a process from the others."""
    process = report.process
    rank = "" if process.rank is None else f"{process.role or 'rank'} {process.rank} · "
    return f"{rank}{process.host} · {process.label}"


def silences(texts: Sequence[str]) -> Iterator[str]:
    """Give the first reasons for which processes have no steps, and how many more there are."""
    yield from texts[:TOP_SILENCES]
    hidden = len(texts) - TOP_SILENCES
    if hidden > 0:
        yield f"and {numbers.count(hidden)} more processes without steps; --json says why"


def _why(item: StandsOut) -> str:
    if item.why is Why.STATE:
        return item.report.process.state
    if item.why is Why.SLOW:
        return f"{item.ratio:.2f} times the median step of {item.work}"
    return f"recording cost {numbers.percent(item.ratio)}"


def _several(counted: Sequence[tuple[str, int]]) -> str:
    """Return what all are, or how many are what."""
    if len(counted) == 1:
        return counted[0][0]
    return ", ".join(f"{numbers.count(count)} {what}" for what, count in counted)
