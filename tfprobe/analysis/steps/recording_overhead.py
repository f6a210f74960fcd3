"""State what recording cost a process, by the agent's own measurement."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tfprobe.errors import Missing
from tfprobe.profile.profile import Process, Work


@dataclass(frozen=True, slots=True)
class Overhead:
    """Time recording took of a process.

    `traced_ns`: traced steps beyond the usual step, with export and write.
    `hook_ns`: the mean measured hook call times all steps, plus folds, plus what is done once.
    `unmeasured_calls`: hook calls not in `hook_ns`, because the agent had not measured any yet.
    `fraction_ratio`: both over the process's wall time, from agent start to last activity or exit.
    """

    fraction_ratio: float
    traced_ns: int
    hook_ns: int
    wall_ns: int
    unmeasured_calls: int


def measure(process: Process, works: Iterable[Work]) -> Overhead | Missing:
    """Return the overhead of one process, from its own works."""
    hooks = process.hooks
    if isinstance(hooks, Missing):
        return hooks
    executed = sum(work.executed for work in works if work.process == process.index)
    if hooks.wall_ns == 0 or (executed == 0 and process.state not in ("finished", "failed")):
        # Without steps and without an exit hook, nobody noted how long the process lived.
        return Missing("the process recorded no activity to measure against")
    mean_ns = hooks.measured_ns / hooks.calls_measured if hooks.calls_measured else 0.0
    hook_ns = round(mean_ns * executed) + hooks.fold_ns + hooks.once_ns
    fraction = min((hooks.traced_ns + hook_ns) / hooks.wall_ns, 1.0)
    unmeasured = 0 if hooks.calls_measured else executed
    return Overhead(fraction, hooks.traced_ns, hook_ns, hooks.wall_ns, unmeasured)
