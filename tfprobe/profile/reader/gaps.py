"""Turn what a process noted between its steps into gaps on the wall clock."""

from __future__ import annotations

from collections.abc import Iterator

from tfprobe.profile.activities import NOT_NOTED, Call, Gap
from tfprobe.runs.gaps import CallRecord, GapLog


def gaps(told: GapLog, *, process: int, unix_minus_monotonic_ns: int) -> Iterator[Gap]:
    """Give the gaps of a process in the order they were written; times are unix ns."""
    for each in told.gaps:
        yield Gap(
            process=process,
            work=each.work,
            step=each.step,
            start_ns=each.start_ns + unix_minus_monotonic_ns,
            duration_ns=each.end_ns - each.start_ns,
            cost_ns=each.cost_ns,
            cut=each.cut,
            calls=tuple(_call(call) for call in each.calls),
            why=each.why,
            cpu_ns=NOT_NOTED if each.cpu_ns is None else each.cpu_ns,
        )


def _call(call: CallRecord) -> Call:
    return Call(
        parent=call.parent,
        function=call.function.name,
        file=call.function.file,
        line=call.function.line,
        called_line=call.called_line,
        is_generator=call.function.is_generator,
        count=call.count,
        self_ns=call.self_ns,
    )
