"""Tell which loops of a process make progress, and which are beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfprobe.analysis.core.main_loop import by_cost, fills_queue
from tfprobe.analysis.steps.phase_intervals import EVALUATION_KINDS, is_training
from tfprobe.profile.profile import Work

# A loop of another thread counts as progress from this share of the main loop's time on.
_LEAST_BESIDE_RATIO = 0.5
# What runs no more often is no loop beside one that does.
_SINGLE = 2


@dataclass(frozen=True, slots=True)
class Loops:
    """The loops of one process that took steps.

    `main` make progress, the main loop first; `evaluating` evaluate or predict beside training;
    `single` ran once or twice, as an initialisation does; `helping` run on other threads.
    """

    main: tuple[Work, ...]
    evaluating: tuple[Work, ...]
    single: tuple[Work, ...]
    helping: tuple[Work, ...]


def divide(works: Sequence[Work]) -> Loops:
    """Sort the loops of one process; without steps there is no main loop."""
    stepped = [work for work in works if len(work.recent.start_ns)]
    beside = is_training(stepped)
    ordered = by_cost(work for work in stepped if not beside or work.kind not in EVALUATION_KINDS)
    if not ordered:
        return Loops((), (), (), ())
    main: list[Work] = []
    single: list[Work] = []
    helping: list[Work] = []
    for work in ordered:
        if work is ordered[0]:
            main.append(work)
        elif work.executed <= _SINGLE < ordered[0].executed:
            single.append(work)
        elif _makes_progress(work, ordered[0]):
            main.append(work)
        else:
            helping.append(work)
    evaluating = tuple(work for work in stepped if beside and work.kind in EVALUATION_KINDS)
    return Loops(tuple(main), evaluating, tuple(single), tuple(helping))


def _makes_progress(work: Work, main: Work) -> bool:
    steps = work.optimizer_steps
    if fills_queue(work):
        return False
    if work.thread == main.thread or (isinstance(steps, int) and steps > 0):
        return True
    return work.times.sum_ns >= _LEAST_BESIDE_RATIO * main.times.sum_ns
