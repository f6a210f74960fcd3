"""What planted loops share: how steps are timed, and where what is true of them is noted.

Knows no framework.
"""

import argparse
import hashlib
import json
import os
import sys
import time

import numpy as np

WARM_UP_STEPS = 5


class Job:
    """What a loop is given, and where it notes what is true of it."""

    def __init__(self, device, is_quick):
        self.is_gpu = device == "gpu"
        self.is_quick = is_quick
        self.random = np.random.default_rng(7)
        self.truth = {
            "counts": {},
            "calls_ns": [],
            "stretches": [],
            "device_ns": [],
            "warm_up": WARM_UP_STEPS,
        }

    def wait(self, value):
        """Wait until the device has nothing left to do."""
        raise NotImplementedError

    def mark(self):
        """Return a mark in what the device is given to do, or None."""
        return

    def between_ns(self, _mark, _later):
        """Return the time of the device between two marks that it has passed, or None."""
        return

    def size(self, on_gpu, on_cpu):
        """Return a size for the device at hand; sizes make steps of 3 to 20 ms."""
        return on_gpu if self.is_gpu else on_cpu

    def steps(self, count=200, on_cpu=120):
        """Return how many steps to time."""
        return 110 if self.is_quick else self.size(count, on_cpu)

    def normal(self, rows, columns):
        """Return random values of a matrix by which products keep their size."""
        return self.random.normal(0, rows**-0.5, (rows, columns))

    def count(self, name, steps):
        """Note that a function was called so many times more."""
        counts = self.truth["counts"]
        counts[name] = counts.get(name, 0) + steps

    def timed(self, step, value, steps, name, *, wait_every=None):
        """Time steps from a device at rest to a device at rest; return what the last one gave."""
        for _ in range(WARM_UP_STEPS):
            value = step(value)
        self.wait(value)
        wait_every = wait_every or steps
        marks = []
        began_cpu_ns = time.process_time_ns()
        began_ns = stretch_ns = time.perf_counter_ns()
        mark = self.mark()
        for index in range(steps):
            self.truth["calls_ns"].append(time.perf_counter_ns())
            value = step(value)
            if (index + 1) % wait_every == 0:
                marks.append((mark, self.mark()))
                self.wait(value)
                ended_ns = time.perf_counter_ns()
                first = index + 1 - wait_every
                self.truth["stretches"].append([first, wait_every, ended_ns - stretch_ns])
                stretch_ns = ended_ns
                mark = self.mark()
        self.wait(value)
        self.truth["loop_ns"] = time.perf_counter_ns() - began_ns
        self.truth["loop_cpu_ns"] = time.process_time_ns() - began_cpu_ns
        self.truth["timed_steps"] = steps
        self.truth["device_ns"] += [self.between_ns(*pair) for pair in marks]
        self.count(name, WARM_UP_STEPS + steps)
        return value


def show(arrays):
    """Print a digest of arrays of NumPy, which is the same for equal bits."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.tobytes())
    print("result", digest.hexdigest()[:16])


def main(description, make_job, loops):
    """Run the loop that the command line names, and write what is true of it."""
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("loop", choices=[loop.__name__ for loop in loops])
    arguments.add_argument("--device", choices=("gpu", "cpu"), required=True)
    arguments.add_argument("--truth", required=True, help="file for what is true, JSON")
    arguments.add_argument("--quick", action="store_true", help="few steps")
    options = arguments.parse_args()

    began_ns = time.perf_counter_ns()
    job = make_job(options.device, options.quick)
    (run,) = (loop for loop in loops if loop.__name__ == options.loop)
    run(job)
    job.truth["job_ns"] = time.perf_counter_ns() - began_ns
    job.truth["threads"] = len(os.listdir("/proc/self/task"))
    with open(options.truth, "w", encoding="utf-8") as file:
        json.dump(job.truth, file)
    sys.stdout.flush()
