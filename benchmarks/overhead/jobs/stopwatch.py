"""How a benchmark job tells what it measured: one `MEASURED {...}` line. Runs on Python 3.6."""

import json
import time

clock = time.perf_counter


def measured(**values):
    """Print what was measured, for the driver."""
    print("MEASURED " + json.dumps(values, sort_keys=True), flush=True)


def step_us(step, calls, block=100, groups=10):
    """Return the time of one call of `step`: the least of the medians of groups of blocks."""
    blocks = []
    for _ in range(max(1, calls // block)):
        started = clock()
        for _ in range(block):
            step()
        blocks.append((clock() - started) / block * 1e6)
    size = max(1, len(blocks) // groups)
    medians = []
    for start in range(0, len(blocks), size):
        group = sorted(blocks[start : start + size])
        medians.append(group[len(group) // 2])
    return min(medians)
