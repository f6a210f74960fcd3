"""Run the planted loops bare and recorded, and print what tfprobe says of each beside what is true.

One command of less than ten minutes: `python benchmarks/gpu/run.py --out FOLDER` on a machine that
has a GPU and JAX, or `--framework torch` on one with PyTorch; no network. Recording needs nothing
else. Reading needs click, NumPy, protobuf, RE2 and rich; where the interpreter lacks them, the
folder's recordings.tar.gz is read elsewhere, by
`python benchmarks/gpu/run.py --read recordings.tar.gz`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

from cases import FRAMEWORKS, Case  # noqa: E402
from recordings import (  # noqa: E402
    ARCHIVE,
    NoDeviceError,
    pack,
    probe,
    record_all,
    unpack,
)

from tfprobe.errors import Missing  # noqa: E402

# Of ten minutes: the rest is for reading and packing.
RECORDING_S = 420


def main() -> int:
    """Return 0 unless nothing could be run; what is wrong is in the table."""
    options = _options()
    if options.read is not None:
        return _read_archive(options.read, options.reader, options.out)
    output: Path = options.out or Path(tempfile.mkdtemp(prefix="tfprobe-gpu-"))
    output.mkdir(parents=True, exist_ok=True)
    # Folders of the cases lie deeper than what some machines send back: the archive has them all.
    with tempfile.TemporaryDirectory(prefix="tfprobe-gpu-") as name:
        work = Path(name)
        try:
            machine = probe(options.framework, options.python, options.device, work)
        except NoDeviceError as problem:
            print(problem, file=sys.stderr)
            return 1
        print(f"{machine.versions}, {machine.device} ({machine.platform}); {options.python}")
        if machine.flags:
            print(f"XLA_FLAGS={machine.flags!r}", flush=True)
        progress = record_all(
            _chosen(options.framework, options.only, is_quick=options.quick),
            work,
            python=options.python,
            device=options.device,
            machine=machine,
            is_quick=options.quick,
            until_s=time.monotonic() + options.seconds,
        )
        for line in progress:
            print(line, flush=True)
        archive = pack(work, is_whole=options.whole)
        (output / ARCHIVE).write_bytes(archive.read_bytes())
        print(f"{output / ARCHIVE}: {archive.stat().st_size / 1e6:.1f} MB")
        return _read(work, options.reader, output)


def _options() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--framework", choices=sorted(FRAMEWORKS), default="jax", help="default: jax"
    )
    arguments.add_argument("--device", choices=("gpu", "cpu"), default="gpu", help="default: gpu")
    arguments.add_argument("--out", type=Path, help="folder for the archive and the table")
    arguments.add_argument("--only", action="append", default=[], metavar="LOOP", help="one loop")
    arguments.add_argument("--quick", action="store_true", help="few steps: checks that it runs")
    arguments.add_argument(
        "--seconds",
        type=float,
        default=RECORDING_S,
        help="begin no loop after this time (default: %(default)s)",
    )
    arguments.add_argument(
        "--whole", action="store_true", help="pack captures of 2 MB and more as well"
    )
    arguments.add_argument(
        "--python", default=sys.executable, help="the interpreter with the framework"
    )
    arguments.add_argument("--reader", default=sys.executable, help="the interpreter that reads")
    arguments.add_argument("--read", type=Path, metavar="ARCHIVE", help="only read an archive")
    return arguments.parse_args()


def _chosen(framework: str, only: Sequence[str], *, is_quick: bool) -> list[Case]:
    every = FRAMEWORKS[framework].cases
    cases = [case for case in every if not only or case.name in only or case.loop in only]
    return [replace(case, repeats=1) for case in cases] if is_quick else cases


def _read_archive(archive: Path, reader: str, output: Path | None) -> int:
    with tempfile.TemporaryDirectory(prefix="tfprobe-gpu-") as name:
        unpack(archive, Path(name))
        return _read(Path(name), reader, output or archive.parent)


def _read(work: Path, reader: str, output: Path) -> int:
    from answers import Recorded, can_read
    from rows import all_rows

    if not can_read(reader):
        print(f"{reader} lacks click, NumPy, protobuf, RE2 or rich; read the archive elsewhere:")
        print(f"  python benchmarks/gpu/run.py --read {output / ARCHIVE}")
        return 0
    rows = []
    for row in all_rows(work, reader):
        rows.append(row)
        print(
            f"{row.verdict:8} {row.case:17} {row.what}: {_text(row.reported)} | "
            f"{_text(row.true)}{f' ({row.target})' if row.target else ''}",
            flush=True,
        )
    verdicts = [row.verdict for row in rows]
    print(", ".join(f"{verdicts.count(name)} {name}" for name in sorted(set(verdicts))))
    document = [
        {name: _plain(value) for name, value in asdict(row).items()} | {"reason": row.reason}
        for row in rows
    ]
    output.mkdir(parents=True, exist_ok=True)
    (output / "rows.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    planes = [
        f"{run.parent.parent.parent.name} {Recorded(run.parent, reader).planes()}"
        for run in sorted(work.glob("*/runs/*/run.json"))
    ]
    (output / "planes.txt").write_text("\n".join(planes), encoding="utf-8")
    return 0


def _text(value: object) -> str:
    if isinstance(value, Missing):
        return f"– ({value.reason})"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value).replace("\n", "; ")


def _plain(value: object) -> object:
    return None if isinstance(value, dict) and set(value) == {"reason"} else value


if __name__ == "__main__":
    sys.exit(main())
