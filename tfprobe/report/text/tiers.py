"""Render the four tiers of a run on one page."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import RenderableType

from tfprobe.analysis.ops.op_stats import OpTable
from tfprobe.analysis.system.application import ActivityUse, ProcessActivities
from tfprobe.analysis.system.runtime import KernelLaunches, Runtime, RuntimeCalls
from tfprobe.errors import Missing
from tfprobe.report.documents.tiers import Tiers
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import TextColumn
from tfprobe.report.text import machines

# What fits on a screen with the other tiers; --json has all.
SHOWN_ACTIVITIES = 12
SHOWN_OPS = 6
SHOWN_CALLS = 8
SHOWN_KERNELS = 3


def render_tiers(tiers: Tiers, *, width: int, colour: bool) -> str:
    """Return the page of `tfprobe tiers`."""
    return page.render(_parts(tiers, width), width=width, colour=colour)


def _parts(tiers: Tiers, width: int) -> Iterator[RenderableType]:
    for item in tiers.application:
        yield from _application(item, several=len(tiers.application) > 1, width=width)
        yield page.blank()
    yield from _framework(tiers.framework, width)
    yield page.blank()
    yield from _runtime(tiers.runtime, width)
    yield page.blank()
    yield from machines.hardware_parts(tiers.hardware, width=width)


def _application(item: ProcessActivities, *, several: bool, width: int) -> Iterator[RenderableType]:
    where = f" · {item.process.host} · {item.process.label}" if several else ""
    wall_ns = item.wall_ns
    wall = "" if isinstance(wall_ns, Missing) else f" · {numbers.duration(wall_ns)} in all"
    yield page.heading(f"Application{where}{wall}")
    if not item.activities:
        yield page.paragraph("no activity and no step was recorded")
        return
    rows = [_activity(use) for use in item.activities[:SHOWN_ACTIVITIES]]
    if isinstance(item.elsewhere_ns, int) and isinstance(wall_ns, int):
        share = numbers.percent(item.elsewhere_ns / wall_ns)
        rows.append(("elsewhere", "", "", "", numbers.duration(item.elsewhere_ns), share))
    columns = (
        TextColumn("activity", is_number=False),
        TextColumn("", is_number=False, may_be_cut=True),
        TextColumn("count"),
        TextColumn("total", may_go=True),
        TextColumn("exclusive"),
        TextColumn("share"),
    )
    yield page.table(columns, rows, width=width)
    hidden = len(item.activities) - SHOWN_ACTIVITIES
    if hidden > 0:
        yield page.paragraph(f"and {hidden} more; --json has all")
    if isinstance(item.elsewhere_ns, Missing):
        yield page.paragraph(f"no shares of the whole: {item.elsewhere_ns.reason}")


def _activity(use: ActivityUse) -> tuple[str, ...]:
    kind = f"{use.kind} steps" if use.is_step else use.kind
    about = "~" if use.is_estimate else ""
    return (
        kind,
        use.name,
        numbers.count(use.count),
        numbers.duration(use.total_ns),
        _or_nothing(use.exclusive_ns, lambda value: f"{about}{numbers.duration(value)}"),
        _or_nothing(use.share_ratio, numbers.percent),
    )


def _framework(table: OpTable | Missing, width: int) -> Iterator[RenderableType]:
    if isinstance(table, Missing):
        yield page.heading("Framework")
        yield page.paragraph(f"no ops: {table.reason}")
        return
    yield page.heading(f"Framework · ops in {_steps(table.captures)}")
    whole_ns = table.time_ns or 1
    columns = (
        TextColumn("type", is_number=False, may_be_cut=True),
        TextColumn("count"),
        TextColumn("total"),
        TextColumn("share"),
    )
    rows = [
        (op.type, numbers.count(op.runs), numbers.duration(op.time_ns),
         numbers.percent(op.time_ns / whole_ns))
        for op in table.types[:SHOWN_OPS]
    ]  # fmt: skip
    yield page.table(columns, rows, width=width)
    hidden = len(table.types) - SHOWN_OPS
    if hidden > 0:
        yield page.paragraph(f"and {hidden} more types; `tfprobe op` has all")


def _runtime(item: Runtime | Missing, width: int) -> Iterator[RenderableType]:
    if isinstance(item, Missing):
        yield page.heading("Runtime")
        yield page.paragraph(item.reason)
        return
    yield page.heading(f"Runtime · driver calls in {_steps(item.steps)}")
    columns = (
        TextColumn("call", is_number=False, may_be_cut=True),
        TextColumn("", is_number=False, may_go=True),
        TextColumn("a step"),
        TextColumn("total"),
        TextColumn("mean"),
        TextColumn("max", may_go=True),
    )
    yield page.table(columns, [_call(call) for call in item.calls[:SHOWN_CALLS]], width=width)
    hidden = len(item.calls) - SHOWN_CALLS
    if hidden > 0:
        yield page.paragraph(f"and {hidden} more calls; --json has all")
    if isinstance(item.launches, KernelLaunches):
        yield page.paragraph(_launches(item.launches))
        for kernel in item.launches.short_kernels[:SHOWN_KERNELS]:
            yield page.line(f"{numbers.count(kernel.count)} × {kernel.name}", indent=4)


def _call(calls: RuntimeCalls) -> tuple[str, ...]:
    times_ns = (calls.total_ns, calls.mean_ns, calls.max_ns)
    kind = calls.kind.name.lower().replace("_", " ")
    shown = [numbers.duration(time_ns) for time_ns in times_ns]
    return (calls.name, kind, numbers.plain(calls.count_per_step), *shown)


def _launches(item: KernelLaunches) -> str:
    per_step = numbers.plain(item.per_step)
    text = f"{per_step} launch{'' if per_step == '1' else 'es'} a step"
    delays = (item.p50_delay_ns, item.p95_delay_ns, item.max_delay_ns)
    known = [numbers.duration(delay) for delay in delays if not isinstance(delay, Missing)]
    if len(known) < len(delays) or isinstance(item.short_ratio, Missing):
        return f"{text}; no delays: {_reason(item.p50_delay_ns)}"
    text += f"; kernels start p50 {known[0]}, p95 {known[1]}, max {known[2]} after their call"
    text += f"; {numbers.percent(item.short_ratio)} run for less time than it"
    return f"{text}, most often:" if item.short_kernels else text


def _reason(item: float | Missing) -> str:
    return item.reason if isinstance(item, Missing) else ""


def _steps(count: int) -> str:
    return "1 traced step" if count == 1 else f"{numbers.count(count)} traced steps"


def _or_nothing(value: float | Missing, write: Callable[[float], str]) -> str:
    return numbers.NOTHING if isinstance(value, Missing) else write(value)
