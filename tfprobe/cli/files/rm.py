"""`tfprobe rm`: runs go, whole, and never one that is running."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfprobe.cli import common
from tfprobe.errors import NoAnswer, UsageError
from tfprobe.printable import printable

if TYPE_CHECKING:
    from tfprobe.profile.snapshots import RunLine
    from tfprobe.runs.catalogue import RunEntry
    from tfprobe.runs.liveness import Machine
    from tfprobe.runs.removal import Removal


_FORCE_HELP = "Also remove runs whose state cannot be determined from here."
_YES_HELP = "Do not ask for confirmation; required without a terminal."


def removal_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --force, --yes, --dry-run and --json; Callable[..., Any] is click's own."""
    for option in (
        common.json_option,
        click.option(
            "--dry-run", is_flag=True, help="Print what would be removed, and remove nothing."
        ),
        click.option("-y", "--yes", is_flag=True, help=_YES_HELP),
        click.option("--force", is_flag=True, help=_FORCE_HELP),
    ):
        function = option(function)
    return function


def agreed(question: str, *, yes: bool) -> bool:
    """Ask on the terminal, unless `yes`. Raises UsageError without a terminal."""
    if yes:
        return True
    if not _is_terminal(sys.stdin) or not _is_terminal(sys.stderr):
        hint = "Use --yes to remove without asking, or --dry-run to see what would be removed."
        raise UsageError(
            "Nothing was removed: there is no terminal to ask for confirmation.", hint=hint
        )
    return click.confirm(question, err=True)


def check_writable(directory: Path) -> None:
    """Raise UsageError where nothing can be removed from a directory."""
    if not os.access(directory, os.W_OK | os.X_OK):
        hint = "Ask its owner for write access."
        raise UsageError(f"Nothing can be removed from {directory}: it is not writable.", hint=hint)


def sentence(
    removals: Sequence[Removal], *, also_freed_bytes: int = 0, also: Sequence[str] = ()
) -> str:
    """Say what is gone, and of each run that is not why; `also` are further problems."""
    from tfprobe.report.format import numbers

    gone = sum(removal.problem is None for removal in removals)
    freed_bytes = also_freed_bytes + sum(removal.freed_bytes for removal in removals)
    lines = [f"Removed {runs(gone)}, {numbers.size(freed_bytes)} freed."]
    lines += [f"{removal.folder.id} {removal.problem}." for removal in removals if removal.problem]
    lines += [f"{problem}." for problem in also]
    return "".join(f"{printable(line)}\n" for line in lines)


def removal_documents(removals: Sequence[Removal], *, also_freed_bytes: int = 0) -> dict[str, Any]:
    """Return the JSON of what is gone and what is not. Any: a JSON document."""
    gone = [
        {
            "id": removal.folder.id,
            "dir": str(removal.folder.root),
            "freed_bytes": removal.freed_bytes,
        }
        for removal in removals
        if removal.problem is None
    ]
    failed = [
        {"id": removal.folder.id, "dir": str(removal.folder.root), "problem": removal.problem}
        for removal in removals
        if removal.problem is not None
    ]
    freed_bytes = also_freed_bytes + sum(removal.freed_bytes for removal in removals)
    return {"removed": gone, "failed": failed, "freed_bytes": freed_bytes}


def runs(count: int) -> str:
    """Write how many runs."""
    return f"{count} run{'' if count == 1 else 's'}"


def _is_terminal(stream: Any) -> bool:
    # Any: a text stream, or None in a program without one.
    return stream is not None and bool(stream.isatty())


@click.command("rm")
@click.argument("run", nargs=-1, required=True, metavar="RUN...")
@common.output_option
@removal_options
def command(
    run: tuple[str, ...],
    output: str | None,
    force: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Remove runs, each a directory or a run id: all of them or, if one must stay, none.

    A run that is still running is never removed. One whose state cannot be determined from here,
    because it ran on another machine or in another container, needs --force.
    """
    from tfprobe.runs.catalogue import glance, measured
    from tfprobe.runs.liveness import this_machine
    from tfprobe.runs.removal import named_run, remove

    place, here = common.output_directory(output), this_machine()
    folders = tuple(dict.fromkeys(named_run(name, place) for name in run))
    entries = [glance(folder, here) for folder in folders]
    _refuse_blocked(entries, here, force=force)
    lines = [measured(entry.line) for entry in entries]
    if dry_run:
        return _say(lines, as_json=as_json)
    for parent in {folder.root.parent for folder in folders}:
        check_writable(Path(parent))
    if not agreed(_question(lines), yes=yes):
        raise NoAnswer("Nothing was removed.")
    with common.progress("Removing"):
        removals = remove(folders, here, force=force)
    if as_json:
        common.show_json({"schema": "tfprobe.rm/1", **removal_documents(removals)})
    else:
        common.show(sentence(removals))
    return 0 if all(removal.problem is None for removal in removals) else NoAnswer.exit_code


def _refuse_blocked(entries: list[RunEntry], here: Machine, *, force: bool) -> None:
    """Raise NoAnswer with all that may not go."""
    from tfprobe.runs.removal import boot_users, hold

    users, now_ns = boot_users(here.proc), time.time_ns()
    holds = [(entry.folder.id, hold(entry, here, users, now_ns)) for entry in entries]
    blocked = [(id, why) for id, why in holds if why and not (force and why.may_be_forced)]
    if not blocked:
        return
    may_be_forced = all(why.may_be_forced for _, why in blocked)
    hint = "Use --force to remove it anyway." if may_be_forced else ""
    said = "; ".join(f"{id} {why.why}" for id, why in blocked)
    raise NoAnswer(f"Nothing was removed: {said}.", hint=hint)


def _say(lines: list[RunLine], *, as_json: bool) -> int:
    from tfprobe.cli.read.ls import document
    from tfprobe.report.text.runs import render_runs

    if as_json:
        runs = [document(line) for line in lines]
        common.show_json({"schema": "tfprobe.rm/1", "would_remove": runs})
        return 0
    width, colour = common.page_width(), common.page_colour()
    common.show_page(render_runs(lines, time.time_ns(), width=width, colour=colour))
    common.show(f"Would remove {_amount(lines)}.\n")
    return 0


def _question(lines: list[RunLine]) -> str:
    return f"Remove {_amount(lines)}?"


def _amount(lines: list[RunLine]) -> str:
    from tfprobe.errors import Missing
    from tfprobe.report.format import numbers

    sizes = [line.size_bytes for line in lines if not isinstance(line.size_bytes, Missing)]
    what = lines[0].id if len(lines) == 1 else runs(len(lines))
    return f"{printable(what)}, {numbers.size(sum(sizes))}"
