"""What the programs share: their one argument, a stopwatch, and the line that they end with."""

import argparse
import json
import time

now = time.perf_counter

# Of the time of the steps, what comes before counts as warm-up.
WARM_UP_RATIO = 0.2

# Python names it from 3.7 on only.
CLOCK_BOOTTIME = 7


def arguments(description):
    """Return the options of a program; `mended` leaves the planted cause away."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--mended", action="store_true", help="leave the planted cause away")
    parser.add_argument("--seconds", type=float, default=7, help="time of all steps (default: 7)")
    return parser.parse_args()


class Stopwatch:
    """Times the steps of a program and its planted cause; says when there have been enough."""

    def __init__(self, seconds):
        self._seconds = seconds
        self._begun = None
        self._units = 0
        self._marks = []
        self._cause_s = None

    def running(self):
        """Say whether there is time for another step; the first call starts the time."""
        if self._begun is None:
            self.unit(0)
        return now() < self._begun + self._seconds

    def unit(self, count=1):
        """Note that as many units of progress are done."""
        if self._begun is None:
            self._begun = now()
        self._units += count
        self._marks.append((now(), self._units))

    def took(self, begun):
        """Note that the planted cause took the time from `begun` until now."""
        self._cause_s = (self._cause_s or 0.0) + now() - begun

    def finish(self, unit_s=None):
        """Print what was measured; `unit_s` where a unit is not the time from one to the next."""
        end, units = self._marks[-1]
        warm_s = self._begun + WARM_UP_RATIO * (end - self._begun)
        # The mark before the last at the latest: a program may have a single unit behind warm-up.
        steady = min(
            next(index for index, mark in enumerate(self._marks) if mark[0] >= warm_s),
            len(self._marks) - 2,
        )
        since, before = self._marks[steady]
        told = {
            "wall_s": since_process_start(),
            "steps_s": end - self._begun,
            "cause_s": self._cause_s,
            "units": units,
            "unit_s": unit_s or (end - since) / (units - before),
        }
        print("PLANTED " + json.dumps(told), flush=True)


def since_process_start():
    """Return the seconds since the kernel started this process."""
    with open("/proc/self/stat") as stat:
        # The name of the program, in parentheses, may hold spaces.
        ticks = int(stat.read().rsplit(")", 1)[1].split()[19])
    # Linux counts a process' start in hundredths of a second since boot.
    return time.clock_gettime(CLOCK_BOOTTIME) - ticks / 100.0


def time_limit(watch, steps, callback):
    """Return a callback of Keras that counts an epoch of `steps` and stops when time is over."""

    class TimeLimit(callback):
        def on_epoch_end(self, epoch, logs=None):
            # The first epoch traces and compiles; time starts behind it.
            if epoch > 0:
                watch.unit(steps)
            if not watch.running():
                self.model.stop_training = True

    return TimeLimit()


def time_limit_hook(watch, hook):
    """Return a hook of estimators that counts steps and stops when time is over."""

    class TimeLimit(hook):
        def begin(self):
            watch.running()

        def after_run(self, run_context, run_values):
            watch.unit()
            if not watch.running():
                run_context.request_stop()

    return TimeLimit()
