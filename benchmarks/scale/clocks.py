"""Recover clocks that are known, and print the worst error and the worst error over its bound."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from tests.support.known_clocks import errors_ns, known_clocks  # noqa: E402
from tfprobe.analysis.distributed.clocks import clocks  # noqa: E402

CASES = 100
WANTED_NS = 100_000


def main() -> int:
    """Print a line for the whole, and one for each case that is not as it should be."""
    worst_ns, worst_ratio, untold, good, count = 0.0, 0.0, 0, 0, 0
    began = time.perf_counter()
    taken_s = 0.0
    for seed in range(int(sys.argv[1]) if len(sys.argv) > 1 else CASES):
        known = known_clocks(seed)
        before = time.perf_counter()
        found = clocks(known.processes, known.events)
        taken_s += time.perf_counter() - before
        told = errors_ns(known, found)
        untold += told.count(None)
        errors = [each for each in told if each is not None]
        error_ns = max(each[0] for each in errors)
        ratio = max((error / bound for error, bound in errors if bound), default=0.0)
        count += 1
        good += error_ns <= WANTED_NS and ratio <= 1
        worst_ns, worst_ratio = max(worst_ns, error_ns), max(worst_ratio, ratio)
        if error_ns > WANTED_NS or ratio > 1 or None in told:
            print(f"seed {seed}: error {error_ns / 1000:.1f} us, {ratio:.3f} of its bound, "
                  f"{told.count(None)} of {len(told)} untold")  # fmt: skip
            for clock in found.unknown:
                print("   ", clock.process, clock.basis)
    print(f"{good} of {count} cases within {WANTED_NS // 1000} us and within their bounds")
    print(f"worst error {worst_ns / 1000:.1f} us, worst error over its bound {worst_ratio:.3f}, "
          f"{untold} clocks untold")  # fmt: skip
    print(f"{taken_s / count:.3f} s a case, {time.perf_counter() - began:.0f} s in all")
    return 0 if good == count else 1


if __name__ == "__main__":
    raise SystemExit(main())
