"""Count the units of a trial, note when each ended, write the weights at one of them, and stop the job at the last.

A unit is a step of one loop of the job. A fix that makes steps of another kind or size says so by `counts_as`.
"""

import os
import threading

from tfprobe_agent import activities
from tfprobe_agent.boot import started
from tfprobe_agent.core import resource_samples
from tfprobe_agent.core.guard import STATE
from tfprobe_agent.core.loop import Loop
from tfprobe_agent.core.recorder import current_recorder
from tfprobe_agent.interruptions import let_through
from tfprobe_agent.unpatched import UNPATCHED

from . import losses, notes, seeds, weights

MARKS = "trial.jsonl"
# Marks are at least this far apart, and written this often.
MARK_NS = 20 * 1000 * 1000
WRITE_NS = 1000 * 1000 * 1000
# Kinds of step that train, and those that never do. The others may be either.
_TRAINING = frozenset(("fit", "train_on_batch", "eager", "optimizer_step"))
# Steps of this loop end at their gradient, before the job updates the weights.
_BY_HAND = "eager", "GradientTape"
_OTHER = frozenset(("evaluate", "predict", "test_on_batch", "predict_on_batch", "forward"))
# How many times as long as it is measured a job may evaluate before it trains, if it has an optimizer.
EVALUATED = 8


class Counter:
    """The units of this process. Every step of every loop passes `step`, under a lock."""

    def __init__(self):
        self.lock = threading.RLock()
        self.unit = None  # kind and name of the loop that is counted
        self.is_given = False
        # (kind, name or None) -> units of such a step or what returns them, and the kind that it stands for
        self.others = {}
        self.steps = {}  # (kind, name) -> units so far
        self.done = 0
        self.extra = 0  # units that no loop counted
        self.warm_ns = None
        self.weighed = False
        self.marks = []
        self.marked_ns = self.written_ns = 0
        self.has_begun = self.has_ended = False
        self.limits = None
        self.followers = []  # called with the loop after each step that was counted

    def begin(self, trial):
        """Take the unit and the limits from config.json."""
        unit = trial.get("unit")
        self.limits = trial
        if unit:
            self.unit, self.is_given = (unit["kind"], unit["name"]), True

    def forget_parent(self):
        """Count anew, in a forked child, what the same configuration asks for."""
        limits, others, followers = self.limits, self.others, self.followers
        self.__init__()
        self.others, self.followers = others, followers
        self.begin(limits)

    def step(self, loop):
        """Count a step that has just ended; this may end the process."""
        with self.lock:
            is_counted = self._count(loop)
        for follow in self.followers if is_counted else ():
            follow(loop)

    def _count(self, loop):
        """Count a step; return whether it was one of the unit."""
        if self.has_ended:
            return False
        units = self._units_of(loop)
        if units == 0:
            return False
        now_ns = UNPATCHED.monotonic_ns()
        if not self.has_begun:
            self._write_first()
        self.done += units
        trained = self.done - ((loop.kind, loop.name) == _BY_HAND)
        if not self.weighed:
            losses.stepped(trained)
        if not self.weighed and trained >= self.limits["weights_at"]:
            self.weighed = True
            weights.write(trained)
            losses.write()
            now_ns = UNPATCHED.monotonic_ns()
        self._mark(now_ns)
        if self.warm_ns is None and self.done >= self.limits["warm_units"]:
            self.warm_ns = now_ns
        self._stop_if_due(now_ns)
        return True

    def _units_of(self, loop):
        """Return how many units a step of this loop counts; choose the unit if config.json names none."""
        key = loop.kind, loop.name
        is_named = key in self.others
        units, stands_for = self.others.get(key) or self.others.get((loop.kind, None)) or (1, None)
        units = units() if callable(units) else units
        is_other = self.unit is None or stands_for != self.unit[0]
        is_open = self.warm_ns is None or _rank(self.unit[0]) == 0 < _rank(loop.kind)
        if not self.is_given and is_other and is_open:
            self._choose(key, units)
        if key == self.unit:
            return units
        return units if stands_for == self.unit[0] and (is_named or loop.name == self.unit[1]) else 0

    def _choose(self, key, units):
        """Take the loop with most units so far, of kinds that train before others."""
        self.steps[key] = self.steps.get(key, 0) + units
        best = max(self.steps, key=lambda other: (_rank(other[0]), self.steps[other], other == self.unit))
        if best != self.unit:
            self.unit = best
            self.done = self.extra + self.steps[best] - (units if best == key else 0)
            # Jobs may evaluate for longer than the warm-up before they train.
            self.has_begun = self.weighed = False
            self.warm_ns = None
            del self.marks[:]
            losses.forget()

    def _write_first(self):
        self.has_begun = True
        kind, name = self.unit
        line = {"unit": {"kind": kind, "name": name}, "started_mono_ns": started()[0]}
        current_recorder().process_dir.append(MARKS, line)
        notes.write_all()

    def _mark(self, now_ns):
        if now_ns - self.marked_ns >= MARK_NS:
            self._add_mark(now_ns)
        if now_ns - self.written_ns >= WRITE_NS:
            self._write_marks(now_ns)

    def _add_mark(self, now_ns):
        self.marked_ns = now_ns
        cpu_ns = UNPATCHED.process_time_ns()
        self.marks.append({"mono_ns": now_ns, "cpu_ns": cpu_ns, "units": self.done})

    def _write_marks(self, now_ns):
        self.written_ns = now_ns
        marks, self.marks = self.marks, []
        current_recorder().process_dir.append(MARKS, *marks)

    def _stop_if_due(self, now_ns):
        if self.done >= self.limits["units"]:
            self._stop("units", now_ns)
        elif self.warm_ns is not None and now_ns - self.warm_ns >= self._seconds() * 1e9:
            self._stop("seconds", now_ns)

    def _seconds(self):
        """Return how long units are counted after the warm-up; longer where training is still to come."""
        seconds = self.limits["seconds"]
        is_waiting = not self.is_given and _rank(self.unit[0]) == 0 and seeds.load("torch").has_optimizer()
        return seconds * EVALUATED if is_waiting else seconds

    def _stop(self, why, now_ns):
        """End the process as a normal exit would have it recorded, without any exit hook or `finally` of the job."""
        self.end(why, now_ns)
        resource_samples.at_exit()
        activities.at_exit()
        current_recorder().finish()
        os._exit(0)

    def end(self, why, now_ns=None):
        """Write the marks that wait, what became of the fixes, and why counting ended; once."""
        if self.has_ended or not self.has_begun:
            return
        self.has_ended = True
        if now_ns is not None and self.marked_ns != now_ns:
            self._add_mark(now_ns)
        self._write_marks(UNPATCHED.monotonic_ns())
        notes.write_all()
        current_recorder().process_dir.append(MARKS, {"stopped": why})


def _rank(kind):
    return 2 if kind in _TRAINING else 0 if kind in _OTHER else 1


COUNTER = Counter()


def counts_as(kind, name, units, stands_for=None):
    """Count each step of this kind, and of that name unless it is None, as so many units, or as `units()` returns.

    `stands_for` is the kind of step in whose place the fix has put it.
    """
    COUNTER.others[kind, name] = units, stands_for


def add(units):
    """Count units that no loop has counted; called by fixes."""
    with COUNTER.lock:
        COUNTER.extra += units
        COUNTER.done += units


def at_exit():
    """Write what is left, where the job ends by itself."""
    try:
        COUNTER.end("ended")
    except Exception:
        let_through()
        STATE.log.error("end of a trial")


class TrialLoop(Loop):
    """A loop that counts units after each step: `stored` is called each time."""

    __slots__ = ()

    def __init__(self, *args):
        Loop.__init__(self, *args)
        self.next_fold = 1

    def stored(self):
        Loop.stored(self)
        self.next_fold = self.n + 1
        COUNTER.step(self)
