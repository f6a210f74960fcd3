"""Time the account of a day: 10 million steps, and all that the agent keeps of them.

Prints seconds, and the memory beyond that of the profile. `account_of_a_day.py`
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from tests.support.profiles import HOOKS, process, profile, timed_loop  # noqa: E402
from tests.support.rundir import MONO_NS, UNIX_NS  # noqa: E402
from tfprobe.analysis.account.account import Account, process_accounts  # noqa: E402
from tfprobe.profile.activities import Activity, Call, Gap  # noqa: E402

DAY_NS = 86_400_000_000_000
STEPS = 10_000_000
REMEMBERED = 8192
ACTIVITIES = 12_000
WATCHED = 4_000
MS = 1_000_000
SAVE_NS = 400 * MS


def main() -> None:
    """Make the profile, account for it, and print what that took."""
    step_ns = 7 * MS
    last_ns = MONO_NS + DAY_NS - REMEMBERED * (step_ns + MS)
    kept = timed_loop([step_ns] * REMEMBERED, MS, start_ns=last_ns, kind="fit")
    loop = replace(
        kept,
        executed=STEPS,
        recent=replace(kept.recent, first_step=STEPS - REMEMBERED),
        times=replace(kept.times, count=STEPS, sum_ns=STEPS * step_ns),
        gaps=replace(kept.gaps, count=STEPS - 1, sum_ns=(STEPS - 1) * MS),
        first_seen_ns=UNIX_NS + 60_000 * MS,
    )
    at_ns = np.linspace(UNIX_NS + 60_000 * MS, UNIX_NS + DAY_NS, ACTIVITIES).astype(int).tolist()
    activities = tuple(
        Activity(
            0, "save", "Model.save", "MainThread", at, at + 400 * MS, n + 1, (n + 1) * 400 * MS
        )
        for n, at in enumerate(at_ns)
    )
    calls = (
        Call(None, "main", "/job/train.py", 1, 9, False, 1, MS // 2),
        *(Call(0, f"f{n}", "/job/train.py", n, n, False, 1, MS // 100) for n in range(50)),
    )
    ends_ns = (kept.recent.end_ns - MONO_NS + UNIX_NS).tolist()[:WATCHED]
    gaps = tuple(
        Gap(0, 0, STEPS - REMEMBERED + n, end, MS, 0, False, calls) for n, end in enumerate(ends_ns)
    )
    one = process(
        unix_minus_monotonic_ns=UNIX_NS - MONO_NS,
        exec_ns=UNIX_NS,
        hooks=replace(HOOKS, wall_ns=DAY_NS),
    )
    told = profile(loops=[loop], processes=[one], activities=activities, gaps=gaps)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began_s = time.perf_counter()
    (account,) = process_accounts(told)
    took_s = time.perf_counter() - began_s
    more_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024
    assert isinstance(account, Account)
    print(f"{STEPS:,} steps, {ACTIVITIES:,} activities, {WATCHED:,} watched gaps")
    print(f"account: {took_s:.2f} s (target 2 s), {more_mib:.0f} MiB (target 300 MB)")


if __name__ == "__main__":
    main()
