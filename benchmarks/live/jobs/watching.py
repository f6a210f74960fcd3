"""Look at a directory of runs once a second and make rows of each look, until killed."""

import sys
import time
from pathlib import Path

from tfprobe.analysis.jobs.fleet import run_rows
from tfprobe.live.breakdown_cache import BreakdownCache
from tfprobe.live.watched_runs import Fleet
from tfprobe.runs.liveness import this_machine

fleet = Fleet(Path(sys.argv[1]), this_machine(), latest=BreakdownCache().shares)
next_s = time.monotonic()
while True:
    run_rows(fleet.look())
    next_s = max(next_s + 1, time.monotonic())
    time.sleep(max(next_s - time.monotonic(), 0))
