"""`tfprobe merge`: runs that were recorded apart become one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfprobe.cli import common
from tfprobe.cli.main import complain
from tfprobe.printable import printable

if TYPE_CHECKING:
    from tfprobe.runs.merge_plan import Plan


@click.command("merge")
@click.argument("directories", nargs=-1, required=True, metavar="DIR...")
@click.option("-o", "--output", required=True, metavar="RUN", help="Run to create or to extend.")
@common.json_option
def command(directories: tuple[str, ...], output: str, as_json: bool) -> int:
    """Merge runs that were recorded separately, one per host or per rank, into one.

    DIR is a run or a directory of runs. Recordings are copied unchanged. To extend RUN, merge into
    it again. A run that is still running is refused.
    """
    from tfprobe.launch import environ
    from tfprobe.runs.liveness import this_machine
    from tfprobe.runs.merge_plan import plan
    from tfprobe.runs.merging import alone, merge

    target = environ.absolute(Path(output))
    places = [_place(directory) for directory in directories]
    with common.progress("Copying") as watch, alone(target):
        chosen = plan(places, target, this_machine())
        merge(chosen, watch)
    for note in chosen.notes[: common.MOST_NAMED]:
        complain(note)
    rest = len(chosen.notes) - common.MOST_NAMED
    if rest > 0:
        complain(f"{rest} more notes; --json has all of them.")
    if as_json:
        common.show_json(_document(chosen))
    else:
        common.show(_text(chosen))
    return 0


def _place(directory: str) -> Path:
    return common.fetched_directory(directory) if common.is_url(directory) else Path(directory)


def _text(chosen: Plan) -> str:
    count, runs = len(chosen.parts), len(chosen.sources)
    return (
        f"{count} process{'' if count == 1 else 'es'} of {runs} run{'' if runs == 1 else 's'} "
        f"{'added to' if chosen.extends else 'in'} {printable(str(chosen.target.root))}\n"
    )


def _document(chosen: Plan) -> dict[str, Any]:
    """Return the JSON of a merge. Any: a JSON document."""
    return {
        "schema": "tfprobe.merge/1",
        "dir": str(chosen.target.root),
        "extended": chosen.extends,
        "runs": [source.folder.id for source in chosen.sources],
        "processes": [
            {"from": str(part.folder.root), "host": part.folder.host, "folder": part.name}
            for part in chosen.parts
        ],
        "bytes": chosen.size_bytes,
        "notes": list(chosen.notes),
    }
