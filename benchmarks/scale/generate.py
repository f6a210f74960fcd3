"""Make a run of many ranks from a real one: `generate.py [--processes N] [--captures N] ...`.

Prints the run directory. A run that is there already is not made again. What all ranks have alike
are the names in their captures; times, hosts and clocks are their own.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import random
import shutil
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT), str(HERE)]

import rank  # noqa: E402
import recorded  # noqa: E402

RANKS_PER_HOST = 8
# Of what is written, the captures' times and the graphs' copies aside, nothing is older.
VERSION = 1
SLOW_RATIO = 1.3


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run to make. Clocks of hosts differ by `clocks_s` at most; the slow rank computes 1.3 times
    as long.
    """

    processes: int = 1000
    captures: int = recorded.CAPTURES
    kind: str = "session"
    clocks_s: float = 0.01
    slow: int | None = None

    @property
    def name(self) -> str:
        """What its folder is called."""
        slow = "" if self.slow is None else f"-slow{self.slow}"
        shape = f"{self.processes}x{self.captures}-clocks{self.clocks_s:g}s{slow}"
        return f"{self.kind}-{shape}-v{VERSION}"


def main(argv: Sequence[str]) -> int:
    """Make the run asked for and print where it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=1000)
    parser.add_argument("--captures", type=int, default=recorded.CAPTURES, help="of each process")
    parser.add_argument("--kind", choices=("session", "function"), default="session")
    parser.add_argument("--clocks", type=float, default=0.01, help="seconds hosts differ by")
    parser.add_argument("--slow", type=int, help="the rank that computes 1.3 times as long")
    parser.add_argument("-o", "--output", type=Path, help="in place of the cache")
    asked = parser.parse_args(argv)
    wanted = Wanted(asked.processes, asked.captures, asked.kind, asked.clocks, asked.slow)
    print(made(wanted, asked.output or recorded.folder()))
    return 0


def made(wanted: Wanted, folder: Path) -> Path:
    """Return the run below `folder`, which is made if it is not there."""
    run = folder / "runs" / wanted.name
    if not run.exists():
        real = recorded.rank(wanted.kind)
        partial = run.with_name(f".tmp-{run.name}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        _write_launch(partial, real, run.name)
        _write_ranks(partial, real, wanted)
        partial.rename(run)
    return run


def _write_ranks(run: Path, real: Path, wanted: Wanted) -> None:
    (process,) = (path.parent for path in real.glob("*/*/process.json"))
    slowest_ratio = 1.08 * (1 if wanted.slow is None else SLOW_RATIO) + 0.01
    template = rank.template(process, wanted.captures, slowest_ratio=slowest_ratio)
    places = [_place(at, wanted) for at in range(wanted.processes)]
    for place in places[::RANKS_PER_HOST]:
        (run / place.host).mkdir()
    # Forked, so that the template is not sent.
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        for _ in pool.imap_unordered(functools.partial(_write_rank, run, template), places):
            pass


def _write_rank(run: Path, template: rank.Template, place: rank.Place) -> None:
    rank.write(run, template, place)


def _place(at: int, wanted: Wanted) -> rank.Place:
    host = at // RANKS_PER_HOST
    turn = random.Random(f"host {host}")
    clocks_ns = round(wanted.clocks_s * 1e9)
    return rank.Place(
        rank=at,
        world=wanted.processes,
        host=f"node{host:04}",
        boot_id=str(uuid.UUID(int=turn.getrandbits(128), version=4)),
        monotonic_ahead_ns=turn.randrange(10**15),
        # The first host's is right, so that times of the run are what they were.
        wall_ahead_ns=turn.randint(-clocks_ns, clocks_ns) if host else 0,
        slow_ratio=SLOW_RATIO if at == wanted.slow else None,
    )


def _write_launch(run: Path, real: Path, name: str) -> None:
    """Write what a launcher writes: the run is the first rank's."""
    (run / "boot").mkdir()
    shutil.copy(real / "boot" / "config.json", run / "boot" / "config.json")
    manifest = json.loads((real / "run.json").read_text())
    manifest |= {"id": name, "host": "node0000", "pid": 10_000}
    manifest |= {"pid_started_ticks": 1000, "boot_id": _place(0, Wanted()).boot_id}
    (run / "run.json").write_text(json.dumps(manifest))
    (run / "boot" / "interpreters.tsv").write_text("")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
