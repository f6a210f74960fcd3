"""Lay out which runs would go and why, and which stay though a rule wants them gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from tfprobe.analysis.jobs.retention import KEEP, OLDER, Candidate, Retention, Rules
from tfprobe.errors import Missing
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import Column
from tfprobe.report.text.runs import age, size

_RUN = (Column("run", is_number=False), Column("state", is_number=False), Column("age"))


def lay_out(
    retention: Retention,
    rules: Rules,
    leftovers: int,
    now_unix_ns: int,
    *,
    width: int,
    colour: bool,
) -> str:
    """Return as text what goes, what is held, and how many leftovers there are beside it."""
    parts = _parts(retention, rules, leftovers, now_unix_ns, width)
    return page.render(parts, width=width, colour=colour)


def _parts(
    retention: Retention, rules: Rules, leftovers: int, now_unix_ns: int, width: int
) -> Iterator[RenderableType]:
    if retention.goes:
        goes = [_going(each, rules, now_unix_ns) for each in retention.goes]
        yield page.table([*_RUN, Column("size"), _why("why it goes")], goes, width=width, indent=0)
        yield page.blank()
    if retention.held:
        held = [[*_run(each, now_unix_ns), each.held or ""] for each in retention.held]
        yield page.table([*_RUN, _why("why it stays")], held, width=width, indent=0)
        yield page.blank()
    yield page.paragraph(_sum(retention, rules, leftovers), indent=0)


def _why(heading: str) -> Column:
    return Column(heading, is_number=False, may_be_cut=True)


def _run(candidate: Candidate, now_unix_ns: int) -> list[str]:
    return [candidate.run.id, candidate.run.state, age(candidate.run, now_unix_ns)]


def _going(candidate: Candidate, rules: Rules, now_unix_ns: int) -> list[str]:
    why = _rules(candidate, rules)
    return [*_run(candidate, now_unix_ns), size(candidate.run), why]


def _rules(candidate: Candidate, rules: Rules) -> str:
    return ", ".join(_rule(rule, rules) for rule in candidate.rules)


def _rule(rule: str, rules: Rules) -> str:
    if rule == KEEP:
        return f"not among the newest {rules.keep}"
    if rule == OLDER:
        return f"older than {numbers.age(rules.older_ns or 0)}"
    return f"above {numbers.size(rules.size_bytes or 0)} in all"


def _sum(retention: Retention, rules: Rules, leftovers: int) -> str:
    goes = [_count(len(retention.goes), "run"), numbers.size(_total(retention.goes))]
    parts = [", ".join(goes)] if retention.goes else []
    if leftovers:
        parts.append(_count(leftovers, "leftover") + " of programs that were killed")
    if rules == Rules() and not parts:
        return "Nothing goes: no rule was given, and no killed program left anything."
    if not parts:
        return "Nothing goes."
    return f"To go: {'; '.join(parts)}."


def _total(candidates: Sequence[Candidate]) -> int:
    sizes = (each.run.size_bytes for each in candidates)
    return sum(size for size in sizes if not isinstance(size, Missing))


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
