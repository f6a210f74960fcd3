"""Stretches of time in which a work took its steps, and of which phase they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.steps.step_window import Int64s, Remembered, overlaps, remember, warm_up_steps
from tfprobe.errors import Missing
from tfprobe.profile.profile import Work

# Beside training these are evaluation.
EVALUATION_KINDS = ("evaluate", "predict", "test_on_batch", "predict_on_batch")
# A pause is longer than both: an epoch of a few short steps ends sooner.
PAUSE_STEPS = 10
PAUSE_NS = 100_000_000
# A first step this much longer than the usual one traced its function.
TRACED_TIMES = 5


@dataclass(frozen=True, slots=True)
class Stretches:
    """Intervals of a phase, in any order and clock."""

    phase: str
    start_ns: Int64s
    end_ns: Int64s


def is_training(works: Sequence[Work]) -> bool:
    """Say whether evaluation is beside something else, and not all there is."""
    return any(work.kind not in EVALUATION_KINDS for work in works)


def of_steps(works: Sequence[Work]) -> Iterator[Stretches]:
    """Give the stretches of the works of one process, in monotonic ns."""
    beside = [work for work in works if is_training(works) and work.kind in EVALUATION_KINDS]
    main = [work for work in works if work not in beside]
    between = _all_steps(main)
    for work in works:
        remembered = remember(work, works)
        yield from _first_step(remembered)
        if work in beside:
            yield Stretches("evaluation", *_spans(remembered, 0, len(remembered), between))
        else:
            yield from _of_main(remembered)


def _first_step(remembered: Remembered) -> Iterator[Stretches]:
    """Give the first step if it took as long as only tracing does."""
    usual_ns = remembered.step_ns[remembered.counts][1:]
    if remembered.first_step or not len(usual_ns):
        return
    if remembered.step_ns[0] > TRACED_TIMES * np.median(usual_ns):
        yield Stretches("compile", remembered.start_ns[:1], remembered.end_ns[:1])


def _of_main(remembered: Remembered) -> Iterator[Stretches]:
    warm_up = warm_up_steps(remembered)
    warm_from = 0 if isinstance(warm_up, Missing) else warm_up
    nobody = _all_steps(())
    yield Stretches("warm-up", *_spans(remembered, 0, warm_from, nobody))
    # From the end of the warm-up on, so that the gap between the two is in one of them.
    yield Stretches("steady", *_spans(remembered, max(warm_from - 1, 0), len(remembered), nobody))


def _spans(
    remembered: Remembered, first: int, end: int, between: tuple[Int64s, Int64s]
) -> tuple[Int64s, Int64s]:
    """Return steps joined across gaps that are no pause and hold no step of `between`."""
    start_ns, end_ns = remembered.start_ns[first:end], remembered.end_ns[first:end]
    if not len(start_ns):
        return start_ns, end_ns
    gaps_ns = remembered.gap_ns[first + 1 : end]
    pauses = remembered.gap_counts[first + 1 : end] & (gaps_ns > _pause_ns(remembered))
    # Between the steps of two threads is no gap, and there may be a pause.
    is_first = ~remembered.has_gap[first + 1 : end]
    pauses |= is_first & (start_ns[1:] - end_ns[:-1] > _pause_ns(remembered))
    pauses |= overlaps(end_ns[:-1], start_ns[1:], *between)
    at = np.flatnonzero(pauses)
    return start_ns[np.append(0, at + 1)], end_ns[np.append(at, len(end_ns) - 1)]


def _pause_ns(remembered: Remembered) -> float:
    periods_ns = remembered.step_ns + remembered.gap_ns
    return max(PAUSE_NS, PAUSE_STEPS * float(np.median(periods_ns)))


def _all_steps(works: Sequence[Work]) -> tuple[Int64s, Int64s]:
    """Return when steps of these works were, sorted by start."""
    none: Int64s = np.zeros(0, dtype=np.int64)
    start_ns = np.concatenate([none, *(work.recent.start_ns for work in works)])
    end_ns = np.concatenate([none, *(work.recent.end_ns for work in works)])
    order = np.argsort(start_ns, kind="stable")
    return start_ns[order], end_ns[order]
