"""Gather the parts of a work's cycles from the breakdown view."""

from __future__ import annotations

import numpy as np

from tfprobe.advice.signals import Loop, Parts, Waste
from tfprobe.errors import Missing
from tfprobe.views.breakdown.between import Cause
from tfprobe.views.breakdown.parts import Part
from tfprobe.views.breakdown.whole import WorkParts


def parts(item: WorkParts, loop: Loop) -> Parts:
    """Return the parts; over all steps they took what those took, with the usual time between.

    Where the time between steps was not watched, the cycle is the step alone.
    """
    watched = [each.between_ns for each in item.steps if not isinstance(each.between_ns, Missing)]
    between_ns = float(np.median(watched)) if watched else 0.0
    return Parts(
        shares=_without_recording(item),
        cycle_ns=item.cycle_ns,
        total_ns=min(loop.step_ns + loop.steps * between_ns, loop.thread_ns),
        causes=tuple(_waste(each) for each in item.causes),
    )


def _without_recording(item: WorkParts) -> dict[str, float]:
    """Return the shares without what recording added to the sampled steps; they sum to 1."""
    shares = {part.value: share for part, share in item.shares.items() if part != Part.RECORDING}
    total = sum(shares.values()) or 1.0
    return {name: share / total for name, share in shares.items()}


def _waste(cause: Cause) -> Waste:
    source = f"{cause.file}:{cause.line}" if cause.file else ""
    return Waste(cause.part.value, cause.what, source, float(cause.duration_ns))
