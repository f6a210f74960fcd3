"""Record the planted programs and print one table: `python -m tests.planted [NAME...]`.

A name is a program or PROGRAM@CELL. `--keep DIR` leaves the recordings in DIR; what was recorded
there before is read again instead, so that changed advice is asked about the same runs.
`--at-once N` runs N cases at a time, each of them a part of the load on the others. Beside load a
program starts slower, while the time of its steps is set: `--seconds` lengthens it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.matrix.cells import CELLS
from tests.matrix.environments import Unavailable, prepare
from tests.planted.cases import CASES, Case
from tests.planted.recording import Failed, load, record
from tests.planted.table import Row, table


def main(words: list[str]) -> int:
    """Record the named cases, or all; print the table; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="N rows for each case")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="N busy processes beside")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="N cases at a time")
    parser.add_argument("--seconds", type=float, metavar="S", help="time of a program's steps")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep recordings in DIR")
    options = parser.parse_args(words)
    known = {name for case in CASES for name in (case.name, case.program)}
    if unknown := set(options.names) - known:
        print(f"no such program: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    wanted = [
        case for case in CASES if not options.names or {case.name, case.program} & {*options.names}
    ]
    runs = list(itertools.product(wanted, range(options.repeat)))
    with (
        tempfile.TemporaryDirectory() as temporary,
        load(options.load),
        ThreadPoolExecutor(options.at_once) as pool,
    ):
        folder = options.keep or Path(temporary)
        rows = list(pool.map(lambda run: _row(run[0], folder / str(run[1]), options.seconds), runs))
    print(table(rows))
    return 1 if any(row.trouble for row in rows) else 0


def _row(case: Case, folder: Path, seconds: float | None) -> Row:
    print(f"{case.name} ...", file=sys.stderr, flush=True)
    cell = next(cell for cell in CELLS if cell.name == case.cell)
    try:
        python = prepare(cell)
        planted, mended = (
            record(
                case, python, folder / case.name / twin, mended=twin == "mended", seconds=seconds
            )
            for twin in ("planted", "mended")
        )
    except (Failed, Unavailable) as error:
        print(f"{case.name}: {error}", file=sys.stderr, flush=True)
        return Row(case, trouble=str(error))
    return Row(case, planted, mended)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
