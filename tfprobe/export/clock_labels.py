"""Say of each process of a timeline by how much its clock was moved, how sure that is, and why."""

from __future__ import annotations

from typing import Any

from tfprobe.analysis.distributed.aligned import Aligned
from tfprobe.errors import Missing
from tfprobe.export.met_rows import short_name

Document = dict[str, Any]  # Any: JSON


def clock_document(together: Aligned) -> list[Document]:
    """Return the clocks of all processes, as metadata of a file."""
    return [
        {
            "process": short_name(each),
            "host": each.host,
            "pid": each.number,
            "rank": each.rank,
            **_clock(together, each.index),
        }
        for each in together.profile.processes
    ]


def clock_label(together: Aligned, process: int) -> str:
    """Return it of one process in a few words; "" where there is but one."""
    clock = together.clock(process)
    if process == together.clocks.reference:
        return "reference clock" if len(together.clocks.clocks) > 1 else ""
    if isinstance(clock.offset_ns, Missing):
        return f"on its own clock: {clock.offset_ns.reason}"
    moved = "its clock is ahead by" if together.as_recorded else "moved by"
    amount_ns = clock.offset_ns if together.as_recorded else -clock.offset_ns
    return f"{moved} {amount_ns / 1000:.3f} us{_error(clock.error_ns)}, {clock.basis}"


def _error(error_ns: int | Missing) -> str:
    return "" if isinstance(error_ns, Missing) else f" +- {error_ns / 1000:.3f} us"


def _clock(together: Aligned, process: int) -> Document:
    """Return numbers as texts: viewers hold them as 64-bit floats."""
    clock = together.clock(process)
    is_known = not isinstance(clock.offset_ns, Missing)
    return {
        "is_reference": process == together.clocks.reference,
        "offset_ns": str(clock.offset_ns) if is_known else None,
        "applied_ns": str(clock.offset_ns) if is_known and not together.as_recorded else "0",
        "error_ns": None if isinstance(clock.error_ns, Missing) else str(clock.error_ns),
        "basis": clock.basis,
        **({} if is_known else {"missing": _reason(clock.offset_ns)}),
    }


def _reason(value: int | Missing) -> str:
    return value.reason if isinstance(value, Missing) else ""
