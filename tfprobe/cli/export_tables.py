"""What `tfprobe export --to parquet` does: all tables of a run, as files of a directory."""

from __future__ import annotations

from pathlib import Path

from tfprobe.cli import reading
from tfprobe.cli.engine import Workers
from tfprobe.cli.tables import opened, warn
from tfprobe.errors import UsageError
from tfprobe.launch import environ
from tfprobe.printable import printable
from tfprobe.runs import safe_files

NAME = "tables"


def write(
    run: str, output: str | None, target: str | None, workers: Workers, *, rank: int | None
) -> int:
    """Write the tables of RUN, which `workers` read, below a directory; return the exit status.

    Raises UsageError for a file from elsewhere, and where nothing can be written.
    """
    from tfprobe.query.tables.exported import export

    if reading.is_file(run):
        raise UsageError(
            f"{run} is a file, and this is about a whole run.",
            hint="Use --to step-timeline, pprof, speedscope or profile-proto.",
        )
    folder = reading.chosen_run(run, output)
    path = environ.absolute(Path(target)).resolve() if target else folder.report / NAME
    with (
        opened([folder], workers, rank=rank) as tables,
        reading.progress("Writing tables") as watch,
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
    reading.show(
        f"{printable(str(path))}\n"
        "Read it with anything that reads Parquet; docs/tables.md has columns.\n"
    )
    warn(tables)
    return 0


def _unwritable(path: Path, exc: OSError) -> UsageError:
    hint = "Name another place with -f."
    return UsageError(f"{path} cannot be written: {exc.strerror or exc}.", hint=hint)
