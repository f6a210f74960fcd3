"""Plant a slow process among 64 and see who is named; and whether anybody is where none is slow."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from tests.support.planted import KEY, Team, team  # noqa: E402
from tfprobe.analysis.distributed import synchronization_events  # noqa: E402
from tfprobe.analysis.distributed.clocks import clocks  # noqa: E402
from tfprobe.analysis.distributed.rank_waits import waits  # noqa: E402
from tfprobe.analysis.distributed.slow_ranks import Straggler, stragglers  # noqa: E402
from tfprobe.errors import Missing  # noqa: E402

CASES = 100


def named(made: Team) -> tuple[Straggler, ...]:
    """Return who is named."""
    processes = [part.process for part in made.parts]
    met = synchronization_events.merge_events([part.events for part in made.parts])
    waited = waits(met, clocks(processes, met), [0] * len(processes))
    turns = {} if isinstance(waited, Missing) else {each.process: each for each in waited.turns}
    return stragglers(dict(enumerate(made.parts)), KEY, turns)[0]


def main() -> int:
    """Print how many slow ones were named, and how many others were."""
    began = time.perf_counter()
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else CASES
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    found = alarms = 0
    for seed in range(first, first + cases):
        made = team(seed, is_slow=True)
        told = named(made)
        is_right = [each.process for each in told] == [made.slow]
        found += is_right
        if not is_right:
            print(f"seed {seed}: process {made.slow} is slow, named: {told}, {made.facts}")
        clean = team(seed, is_slow=False)
        told = named(clean)
        alarms += bool(told)
        if told:
            print(f"seed {seed}: nobody is slow, named: {told}, {clean.facts}")
    print(f"seeds {first} to {first + cases - 1}")
    print(f"the slow one of 64, and nobody else, named in {found}/{cases}")
    print(f"somebody named where nobody is slow in {alarms}/{cases}")
    print(f"{time.perf_counter() - began:.0f} s")
    return 0 if found == cases and not alarms else 1


if __name__ == "__main__":
    raise SystemExit(main())
