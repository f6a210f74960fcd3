"""Render the comparison of the processes of a job: all of few, or the few that matter of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from rich.console import RenderableType

from tfprobe.analysis.distributed.rank_comparison import RankComparison, RankRow
from tfprobe.analysis.distributed.rank_facts import name
from tfprobe.analysis.distributed.rank_waits import Servers, Waits
from tfprobe.analysis.distributed.slow_ranks import Measure, Straggler
from tfprobe.errors import Missing
from tfprobe.profile.profile import Problem
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import TextColumn

# What fits on a screen; --json has all.
MOST_ROWS = 16
_MOST_PAIRS = 5
_MOST_HOSTS = 6
_COLUMNS = (
    TextColumn("process", is_number=False),
    TextColumn("host", is_number=False, may_be_cut=True, may_go=True),
    TextColumn("steps"),
    TextColumn("mean"),
    TextColumn("later"),
    TextColumn("z"),
    TextColumn("last"),
    TextColumn("waited", may_go=True),
    TextColumn("overlap", may_go=True),
    TextColumn("clock", may_go=True),
    TextColumn("state", is_number=False, may_go_last=True),
)
_PAIRS = (
    TextColumn("waits", is_number=False),
    TextColumn("for", is_number=False),
    TextColumn("times"),
    TextColumn("in all"),
    TextColumn("each"),
)
_SERVERS = (
    TextColumn("server", is_number=False),
    TextColumn("sent and received"),
    TextColumn("workers"),
    TextColumn("receiving", may_go=True),
    TextColumn("ops ran"),
)
_MEASURES: dict[Measure, str] = {
    "cycle": "from step to step",
    "between": "before steps",
    "inside": "in steps, outside collectives",
    "step": "in steps",
}
# Tracing makes a step longer.
_STEPS: dict[Measure, str] = {"inside": "traced step"}
# Plurals of roles.
_SEVERAL = {"worker": "workers", "chief": "chiefs", "evaluator": "evaluators"}
# A cell of the strip is the time of a step divided by the median process's.
_SHADES = ((1.02, "·"), (1.1, "░"), (1.25, "▒"), (2.0, "▓"))
_SLOWEST = "█"


def render_ranks(
    found: RankComparison, run: str, problems: Sequence[Problem], *, width: int, colour: bool
) -> str:
    """Return the page of `tfprobe ranks`."""
    return page.render(_parts(found, run, problems, width), width=width, colour=colour)


def _parts(
    found: RankComparison, run: str, problems: Sequence[Problem], width: int
) -> Iterator[RenderableType]:
    yield page.heading(f"{run}: {_count(len(found.rows), 'process', 'processes')}")
    yield page.paragraph(_summary(found))
    yield page.paragraph(_clocks(found))
    for text in (*_named(found), *found.facts, *(f"{p.where}: {p.what}" for p in problems)):
        yield page.paragraph(text)
    yield page.blank()
    yield from _table(found, width)
    yield from _strip(found, width)
    yield from _waits(found, width)
    yield from _servers(found, width)


def _count(number: int, one: str, many: str) -> str:
    return f"1 {one}" if number == 1 else f"{numbers.count(number)} {many}"


def _summary(found: RankComparison) -> str:
    roles = Counter(row.process.role or "without a role" for row in found.rows)
    states = Counter(row.process.state for row in found.rows)
    hosts = sorted({row.process.host for row in found.rows})
    shown = ", ".join(hosts[:_MOST_HOSTS])
    more = f" and {len(hosts) - _MOST_HOSTS} more" if len(hosts) > _MOST_HOSTS else ""
    world = "" if found.world is None else f" of a world of {numbers.count(found.world)}"
    has_roles = set(roles) != {"without a role"}
    in_roles = f"Roles: {_counted(roles, _SEVERAL)}{world}. " if has_roles else ""
    return (
        f"{in_roles}States: {_counted(states)}. On "
        f"{_count(found.clocks.machines, 'machine', 'machines')} ({shown}{more})."
    )


def _counted(counter: Counter[str], several: Mapping[str, str] = MappingProxyType({})) -> str:
    return ", ".join(
        f"{numbers.count(number)} {what if number == 1 else several.get(what, what)}"
        for what, number in counter.most_common()
    )


def _clocks(found: RankComparison) -> str:
    if found.clocks.machines < 2:
        return "Clocks: one machine has one clock."
    known = [clock for clock in found.clocks.clocks if isinstance(clock.error_ns, int)]
    reference = name(found.rows[found.clocks.reference].process)
    if len(known) == 1:
        return f"Clocks: none can be aligned with that of {reference}."
    offsets = [abs(each.offset_ns) for each in known if isinstance(each.offset_ns, int)]
    drifts = [abs(each.drift_ppm) for each in known if isinstance(each.drift_ppm, float)]
    drift = f", drifting by up to {max(drifts):.1f} ppm" if max(drifts, default=0) >= 0.1 else ""
    error = found.clocks.error_ns
    within = numbers.duration(error) if isinstance(error, int) else numbers.NOTHING
    return (
        f"Clocks: up to {numbers.duration(max(offsets))} apart{drift}, aligned with {reference}'s; "
        f"certain to within {within}."
    )


def _named(found: RankComparison) -> Iterator[str]:
    for straggler in found.stragglers[:_MOST_PAIRS]:
        process = found.rows[straggler.process].process
        named = name(process) if process.rank is None else f"{name(process)} on {process.host}"
        yield (
            f"Slow: {named}, "
            f"{numbers.duration(straggler.excess_ns)} a {_STEPS.get(straggler.measure, 'step')} "
            f"({numbers.percent(straggler.late.excess_ratio)}) more than the median process "
            f"{_MEASURES[straggler.measure]}, z {straggler.late.z:.1f} over "
            f"{straggler.late.steps} steps{_last(straggler)}."
        )
    rest = len(found.stragglers) - _MOST_PAIRS
    if rest > 0:
        yield f"{rest} more are slow."
    if found.stragglers or isinstance(found.loop, Missing):
        return
    if found.most_together > 1:
        yield "No process is slower than the others by more than chance."
    elif len(found.rows) > 1:
        yield (
            "No process is compared with another: they run different commands, ran one after the "
            "other, or are workers of one program that share its tasks."
        )


def _last(each: Straggler) -> str:
    if isinstance(each.last_ratio, Missing):
        return ""
    return f"; last to {numbers.percent(each.last_ratio)} of {each.matched} collectives"


def _table(found: RankComparison, width: int) -> Iterator[RenderableType]:
    shown = _that_matter(found)
    loop = "" if isinstance(found.loop, Missing) else f" of {found.loop}"
    rest = len(found.rows) - len(shown)
    which = f", the {len(shown)} that matter most" if rest else ""
    yield page.heading(f"Processes{loop}{which}")
    yield page.table(_COLUMNS, [_row(row) for row in shown], width=width)
    if rest:
        yield page.paragraph(f"and {numbers.count(rest)} more; --json has all.")


def _that_matter(found: RankComparison) -> Sequence[RankRow]:
    """Return all rows if they are few, else those that stand out, in their order."""
    if len(found.rows) <= MOST_ROWS:
        return found.rows
    named = {straggler.process for straggler in found.stragglers}
    usual = Counter(row.process.state for row in found.rows).most_common(1)[0][0]

    def weight(row: RankRow) -> tuple[bool, bool, bool, float]:
        z = 0.0 if isinstance(row.late, Missing) else row.late.late.z
        is_known = not isinstance(row.clock.offset_ns, Missing)
        return row.process.index in named, row.process.state != usual, not is_known, z

    order = sorted(range(len(found.rows)), key=lambda at: weight(found.rows[at]), reverse=True)
    return [found.rows[at] for at in sorted(order[:MOST_ROWS])]


def _row(row: RankRow) -> Sequence[str]:
    late, turn, overlap = row.late, row.turn, row.overlap
    error = row.clock.error_ns
    nothing = numbers.NOTHING
    process = row.process
    return (
        process.label if process.rank is None else name(process),
        process.host,
        nothing if row.steps is None else numbers.count(row.steps),
        nothing if row.mean_ns is None else numbers.duration(row.mean_ns),
        nothing if isinstance(late, Missing) else f"{100 * late.late.excess_ratio:+.1f} %",
        nothing if isinstance(late, Missing) else _z(late),
        nothing if isinstance(turn, Missing) else numbers.percent(turn.last_ratio),
        nothing if isinstance(turn, Missing) else numbers.duration(turn.waiting_ns),
        nothing if isinstance(overlap, Missing) else numbers.percent(overlap.hidden_ratio),
        nothing if isinstance(error, Missing) else f"±{numbers.duration(error)}",
        process.state,
    )


def _z(late: Straggler) -> str:
    mark = "!" if late.late.is_named else ""
    return f"{mark}{late.late.z:.1f}" if abs(late.late.z) < 1000 else f"{mark}>999"


def _strip(found: RankComparison, width: int) -> Iterator[RenderableType]:
    rows = [row for row in _that_matter(found) if row.cells]
    if len(rows) < 2:
        return
    wide = max(len(name(row.process)) for row in rows)
    columns = min(len(rows[0].cells), max(width - wide - 4, 8))
    yield page.blank()
    yield page.heading(
        f"Steps {numbers.count(found.first_step)} to {numbers.count(found.last_step)}, each over "
        "the middle process's"
    )
    for row in rows:
        cells = "".join(_shade(cell) for cell in row.cells[-columns:])
        yield page.line(f"{name(row.process):<{wide}}  {cells}")
    yield page.paragraph("· up to 2 % longer, ░ 10 %, ▒ 25 %, ▓ twice as long, █ more")
    if found.figures:
        last = found.figures[-1]
        yield page.paragraph(
            f"Step {numbers.count(last.step)}: {numbers.duration(last.least_ns)} in "
            f"{name(found.rows[last.quickest].process)}, {numbers.duration(last.median_ns)} in the "
            f"middle, {numbers.duration(last.most_ns)} in {name(found.rows[last.slowest].process)}."
        )


def _shade(cell: float | None) -> str:
    if cell is None:
        return " "
    return next((shade for limit, shade in _SHADES if cell <= limit), _SLOWEST)


def _waits(found: RankComparison, width: int) -> Iterator[RenderableType]:
    if not found.is_job:
        return
    yield page.blank()
    waits = found.waits
    if isinstance(waits, Missing):
        yield page.paragraph(f"Who waits for whom is unknown: {waits.reason}.", indent=0)
        return
    steps = _count(waits.steps, "traced step", "traced steps")
    yield page.heading(f"Who waits for whom, in {steps}")
    yield page.table(_PAIRS, _pairs(found, waits), width=width)
    rest = len(waits.pairs) - _MOST_PAIRS
    if rest > 0:
        yield page.paragraph(f"and {_count(rest, 'more pair', 'more pairs')}; --json has all.")


def _pairs(found: RankComparison, waits: Waits) -> Sequence[Sequence[str]]:
    return [
        (
            name(found.rows[pair.who].process),
            name(found.rows[pair.whom].process),
            numbers.count(pair.count),
            numbers.duration(pair.waiting_ns),
            numbers.duration(pair.waiting_ns / pair.count),
        )
        for pair in waits.pairs[:_MOST_PAIRS]
    ]


def _servers(found: RankComparison, width: int) -> Iterator[RenderableType]:
    has_servers = any(row.slot.team == "ps" for row in found.rows)
    servers = found.servers
    if isinstance(servers, Missing):
        if has_servers:
            yield page.blank()
            yield page.paragraph(f"Load of parameter servers: {servers.reason}.", indent=0)
        return
    yield page.blank()
    yield page.heading("Parameter servers")
    yield page.table(_SERVERS, _loads(servers), width=width)
    if len(servers.loads) > 1 and not isinstance(servers.imbalance_ratio, Missing):
        yield page.paragraph(
            f"The one with the most bytes has {servers.imbalance_ratio:.2f} times the mean."
        )


def _loads(servers: Servers) -> Sequence[Sequence[str]]:
    return [
        (
            load.server,
            numbers.NOTHING if isinstance(load.bytes, Missing) else numbers.size(load.bytes),
            numbers.count(len({of.process for of in load.exchanges})),
            _time(load.receiving_ns),
            _time(load.busy_ns),
        )
        for load in servers.loads
    ]


def _time(ns: int | Missing) -> str:
    return numbers.NOTHING if isinstance(ns, Missing) else numbers.duration(ns)
