"""`tfprobe ls`: the runs of a directory, newest first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tfprobe.cli import reading
from tfprobe.errors import Missing, NoAnswer, UnreadableInput
from tfprobe.model.catalogue import RunLine


@click.command("ls")
@click.argument("directory", required=False, metavar="[DIR]")
@click.option("-o", "--output", metavar="DIR", help="The same as DIR.")
@click.option("--json", "as_json", is_flag=True, help="Print one document.")
def command(directory: str | None, output: str | None, as_json: bool) -> int:
    """List runs, newest first: state, processes, steps, command.

    killed also means: ended without its exit hooks, as os._exit does.
    """
    from tfprobe.ingest.catalogue import load
    from tfprobe.store.liveness import this_machine

    place = Path(directory) if directory is not None else reading.output_directory(output)
    if directory is not None and not place.is_dir():
        raise UnreadableInput(f"{place} is no directory.", hint="Name the one given to `run -o`.")
    runs = load(place, this_machine())
    if as_json:
        reading.show_json({"schema": "tfprobe.ls/1", "runs": [_document(run) for run in runs]})
        return 0
    if not runs:
        hint = "Record one with `tfprobe run -- COMMAND`."
        raise NoAnswer(f"There is no run in {place}.", hint=hint)
    from tfprobe.terminal.runs import lay_out

    reading.show(lay_out(runs, width=reading.page_width(), colour=reading.page_colour()))
    return 0


def _document(run: RunLine) -> dict[str, Any]:
    # Any: a JSON document.
    return {
        "id": run.id,
        "dir": run.directory,
        "command": None if isinstance(run.command, Missing) else list(run.command),
        "started": None if isinstance(run.started, Missing) else run.started,
        "host": None if isinstance(run.host, Missing) else run.host,
        "processes": run.processes,
        "steps": run.steps,
        "state": run.state,
    }
