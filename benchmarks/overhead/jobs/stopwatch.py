"""How a benchmark job measures, and tells what: one `MEASURED {...}` line. Runs on Python 3.6."""

import json
import time

clock = time.perf_counter


def measured(**values):
    """Print what was measured, for the driver."""
    print("MEASURED " + json.dumps(values, sort_keys=True), flush=True)


def by_turns(rounds, *ways):
    """Run all ways in each round, the order turned each time; return a list of times for each way.

    A way is a function that runs some calls and returns the time of one, in us.
    """
    times = [[] for _ in ways]
    for each in range(rounds):
        for shift in range(len(ways)):
            at = (each + shift) % len(ways)
            times[at].append(ways[at]())
    return times


def mean_us(step, calls):
    """Call `step` so often; return the time of one call in us."""
    started = clock()
    for _ in range(calls):
        step()
    return (clock() - started) / calls * 1e6


def median(values):
    """Return the middle value."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
