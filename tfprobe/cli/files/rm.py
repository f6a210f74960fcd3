"""`tfprobe rm`: runs go, whole, and never one that is running."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfprobe.cli import common
from tfprobe.cli.files import removing
from tfprobe.errors import NoAnswer
from tfprobe.printable import printable

if TYPE_CHECKING:
    from tfprobe.profile.snapshots import RunLine
    from tfprobe.runs.catalogue import RunEntry
    from tfprobe.runs.liveness import Machine

_ALL_RUNS = "Directory of all runs, as for `run`."


@click.command("rm")
@click.argument("run", nargs=-1, required=True, metavar="RUN...")
@click.option("-o", "--output", metavar="DIR", help=_ALL_RUNS)
@removing.removal_options
def command(
    run: tuple[str, ...],
    output: str | None,
    force: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Remove runs, each a directory or a run id; all of them or, if one may not go, none.

    A run that is running is never removed. One that ran where nobody here can look, on another
    machine or in another container, needs --force.
    """
    from tfprobe.profile.reader.processes import line, measured
    from tfprobe.runs.catalogue import glance
    from tfprobe.runs.liveness import this_machine
    from tfprobe.runs.removal import named_run, remove

    place, here = common.output_directory(output), this_machine()
    folders = tuple(dict.fromkeys(named_run(each, place) for each in run))
    entries = [glance(folder, here) for folder in folders]
    _refuse_held(entries, here, force=force)
    lines = [measured(line(entry)) for entry in entries]
    if dry_run:
        return _say(lines, as_json=as_json)
    for parent in {folder.root.parent for folder in folders}:
        removing.check_writable(Path(parent))
    if not removing.agreed(_question(lines), yes=yes):
        raise NoAnswer("Nothing was removed.")
    with common.progress("Removing"):
        removals = remove(folders, here, force=force)
    if as_json:
        common.show_json({"schema": "tfprobe.rm/1", **removing.documents(removals)})
    else:
        common.show(removing.sentence(removals))
    return 0 if all(each.problem is None for each in removals) else NoAnswer.exit_code


def _refuse_held(entries: list[RunEntry], here: Machine, *, force: bool) -> None:
    """Raise NoAnswer with all that may not go."""
    from tfprobe.runs.removal import boot_users, hold

    users, now_ns = boot_users(here.proc), time.time_ns()
    found = [(entry.folder.id, hold(entry, here, users, now_ns)) for entry in entries]
    held = [(id, why) for id, why in found if why and not (force and why.may_be_forced)]
    if not held:
        return
    may_be_forced = all(why.may_be_forced for _, why in held)
    hint = "--force removes it all the same." if may_be_forced else ""
    said = "; ".join(f"{id} {why.why}" for id, why in held)
    raise NoAnswer(f"Nothing was removed: {said}.", hint=hint)


def _say(lines: list[RunLine], *, as_json: bool) -> int:
    from tfprobe.cli.read.ls import document
    from tfprobe.report.text.runs import lay_out

    if as_json:
        runs = [document(line) for line in lines]
        common.show_json({"schema": "tfprobe.rm/1", "would_remove": runs})
        return 0
    width, colour = common.page_width(), common.page_colour()
    common.show_page(lay_out(lines, time.time_ns(), width=width, colour=colour))
    common.show(f"Would remove {_amount(lines)}.\n")
    return 0


def _question(lines: list[RunLine]) -> str:
    return f"Remove {_amount(lines)}?"


def _amount(lines: list[RunLine]) -> str:
    from tfprobe.errors import Missing
    from tfprobe.report.format import numbers

    sizes = [line.size_bytes for line in lines if not isinstance(line.size_bytes, Missing)]
    what = lines[0].id if len(lines) == 1 else removing.runs(len(lines))
    return f"{printable(what)}, {numbers.size(sum(sizes))}"
