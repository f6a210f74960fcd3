"""Write what `tfprobe export` makes, so that nothing is left of a file that failed."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tfprobe.cli import common
from tfprobe.cli.common import Workers
from tfprobe.cli.tables import opened, warn
from tfprobe.errors import UsageError
from tfprobe.launch import environ
from tfprobe.printable import printable
from tfprobe.runs import safe_files

_GZIP = b"\x1f\x8b"


def write_files(directory: Path, files: Iterable[tuple[str, str]], *, report: Path | None) -> None:
    """Write files by their names below a directory; `report` is that of the run, or None.

    A directory that a person named may be a link, and nothing below it; in a run nothing may.
    """
    is_default = directory.parent == report
    root = directory.parents[1] if is_default else directory
    for name, text in files:
        if not is_default:
            directory.mkdir(parents=True, exist_ok=True)
        content = text.encode("utf-8", "replace")
        safe_files.write(root, directory / name, content, private=is_default)


def write_pieces(path: Path, pieces: Iterator[str | bytes], *, report: Path | None) -> None:
    """Write the pieces of one file; `report` is the directory of the run, created if missing."""
    first = next(pieces, "")  # what cannot be answered is said before a file is touched
    is_packed = path.suffix == ".gz" and not _bytes(first).startswith(_GZIP)
    with _opened(path, report) as file, gzip.open(file, "wb") if is_packed else file as stream:
        stream.write(_bytes(first))
        for piece in pieces:
            stream.write(_bytes(piece))


@contextmanager
def _opened(path: Path, report: Path | None) -> Iterator[BinaryIO]:
    if path.parent == report:
        # The user did not choose this place, and so not what a link in the run leads to.
        with (
            safe_files.directory(report.parent, report, make=True) as place,
            safe_files.replacing(place / path.name, mode=0o600) as file,
        ):
            yield file
    elif path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file  # a pipe or a device, which must stay what it is
    else:
        with safe_files.replacing(environ.absolute(path).resolve()) as file:
            yield file


def _bytes(piece: str | bytes) -> bytes:
    return piece.encode("utf-8", "replace") if isinstance(piece, str) else piece


NAME = "tables"


def write_tables(
    run: str, output: str | None, target: str | None, workers: Workers, *, rank: int | None
) -> int:
    """Write the tables of RUN, which `workers` read, below a directory; return the exit status.

    Raises UsageError for a file from elsewhere, and where nothing can be written.
    """
    from tfprobe.query.tables.loader import export

    if common.is_file(run):
        raise UsageError(
            f"This format needs a run, and {run} is a file.",
            hint="Use --to step-timeline, pprof, speedscope or profile-proto.",
        )
    folder = common.chosen_run(run, output)
    path = environ.absolute(Path(target)).resolve() if target else folder.report / NAME
    with (
        opened([folder], workers, rank=rank) as tables,
        common.progress("Writing tables") as watch,
    ):
        try:
            if target is None:
                with safe_files.directory(folder.root, path, make=True) as place:
                    export(tables, place, watch)
            else:
                export(tables, path, watch)
        except OSError as exc:
            raise _unwritable(path, exc) from exc
        except ValueError as exc:  # a path that no file can have
            raise UsageError(f"{path} cannot be written: {exc}.") from exc
    common.show(
        f"{printable(str(path))}\n"
        "Open it with any program that reads Parquet; docs/tables.md lists the columns.\n"
    )
    warn(tables)
    return 0


def _unwritable(path: Path, exc: OSError) -> UsageError:
    hint = "Name another place with -f."
    return UsageError(f"{path} cannot be written: {exc.strerror or exc}.", hint=hint)
