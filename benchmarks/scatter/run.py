"""Measure how often `tfprobe diff` is wrong on a machine that others use.

`python benchmarks/scatter/run.py --python ENV/bin/python -o RUNS` records a program of ten layers
and one of eleven by turns, five times each, and that of ten layers three times more, beside a load
that changes. Then it counts what `diff` says of the eight equal runs, by pairs and by threes, and
of ten layers against eleven, which take 10 % longer. With `--only-compare` it reads RUNS as they
are.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from recorded import changing_load, record  # noqa: E402

from tfprobe.analysis.compare.comparison import Diff, diff  # noqa: E402
from tfprobe.analysis.compare.sides import RunLevels, Sides, levels, sides  # noqa: E402
from tfprobe.profile.profile import Profile  # noqa: E402
from tfprobe.profile.reader.run_reader import load  # noqa: E402
from tfprobe.runs.layout import RunFolder  # noqa: E402
from tfprobe.runs.liveness import this_machine  # noqa: E402

TEN, ELEVEN = "ten", "eleven"
TURNS, MORE = 5, 3
A_SIDE = 3
ANSWERS = ("slower", "faster", "no change", "cannot be told")
WHOSE = ("program", "machine", "unknown", "none")


def main(argv: Sequence[str]) -> int:
    """Record what is not there yet, and print two tables."""
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__)
    parser.add_argument("--python", type=Path, help="the interpreter of an environment with TF 2")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=12.0, help="how long a run steps")
    parser.add_argument("--only-compare", action="store_true")
    options = parser.parse_args(argv)
    print(f"{len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f} before", end="")
    if not options.only_compare:
        _record(options)
    print(f", {os.getloadavg()[0]:.1f} after\n", flush=True)
    ten, eleven = _profiles(options.output, TEN), _profiles(options.output, ELEVEN)
    _print_pairs(ten, eleven)
    _print_sides(ten, eleven)
    return 0


def _record(options: argparse.Namespace) -> None:
    for seed, name in enumerate([TEN, ELEVEN] * TURNS + [TEN] * MORE):
        layers = 11 if name == ELEVEN else 10
        with changing_load(seed):
            record(
                options.python, options.output, name=name, layers=layers, seconds=options.seconds
            )


def _profiles(output: Path, name: str) -> list[Profile]:
    folders = [RunFolder(path) for path in sorted(output.iterdir())]
    profiles = [load(folder, this_machine()) for folder in folders if folder.is_run()]
    return [profile for profile in profiles if profile.run.name == name]


def _print_pairs(ten: Sequence[Profile], eleven: Sequence[Profile]) -> None:
    print("| one run a side | pairs | the program | the machine | cannot be told | no change |")
    print("|---|---|---|---|---|---|")
    for what, pairs in (
        ("ten against ten", list(itertools.combinations(ten, 2))),
        ("ten against eleven", list(itertools.product(ten, eleven))),
    ):
        found = Counter(_whose(*pair) for pair in pairs)
        cells = [str(found[whose]) for whose in WHOSE]
        print(f"| {what} | {len(pairs)} | {' | '.join(cells)} |", flush=True)
    print()


def _whose(before: Profile, after: Profile) -> str:
    found = diff(before, after)
    assert isinstance(found, Diff), found
    return "none" if found.whose is None else found.whose.value


def _print_sides(ten: Sequence[Profile], eleven: Sequence[Profile]) -> None:
    """Print what threes of the runs say, and all that were recorded by turns."""
    print(f"| several runs a side | choices | {' | '.join(ANSWERS)} |")
    print("|---|---|---|---|---|---|")
    tens, elevens = ([levels(ten[0], run) for run in side] for side in (ten, eleven))
    threes = list(itertools.combinations(tens, A_SIDE))
    apart = [
        (one, other)
        for one, other in itertools.combinations(threes, 2)
        if not {run.run.id for run in one} & {run.run.id for run in other}
    ]
    turns = [
        ([tens[at] for at in chosen], [elevens[at] for at in chosen])
        for chosen in itertools.combinations(range(TURNS), A_SIDE)
    ]
    for what, choices in (
        ("three of ten against three of ten", apart),
        ("three of ten against three of eleven, by turns", turns),
        ("five of ten against five of eleven", [(tens[:TURNS], elevens)]),
    ):
        found = Counter(_answer(ten[0], eleven[0], *choice) for choice in choices)
        cells = [str(found[answer]) for answer in ANSWERS]
        print(f"| {what} | {len(choices)} | {' | '.join(cells)} |", flush=True)


def _answer(
    reference: Profile, other: Profile, before: Sequence[RunLevels], after: Sequence[RunLevels]
) -> str:
    found = sides(reference, other, before, after)
    assert isinstance(found, Sides), found
    return found.answer.value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
