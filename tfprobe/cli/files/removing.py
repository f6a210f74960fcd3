"""What the commands that remove runs share: asking first, and telling what became of each."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfprobe.errors import UsageError
from tfprobe.printable import printable

if TYPE_CHECKING:
    from tfprobe.runs.removal import Removal

_FORCE_HELP = "Also runs whose state nobody here can tell; never one that is running."
_YES_HELP = "Do not ask; needed where there is no terminal to ask on."


def removal_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --force, --yes, --dry-run and --json; Callable[..., Any] is click's own."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print one document."),
        click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing."),
        click.option("-y", "--yes", is_flag=True, help=_YES_HELP),
        click.option("--force", is_flag=True, help=_FORCE_HELP),
    ):
        function = option(function)
    return function


def agreed(question: str, *, yes: bool) -> bool:
    """Ask on the terminal, unless --yes was said. Raises UsageError where nobody can be asked."""
    if yes:
        return True
    if not _is_terminal(sys.stdin) or not _is_terminal(sys.stderr):
        hint = "Say --yes; --dry-run says what would go."
        raise UsageError("Nothing was removed: there is no terminal to ask on.", hint=hint)
    return click.confirm(question, err=True)


def check_writable(directory: Path) -> None:
    """Raise UsageError where nothing can be removed from a directory."""
    if not os.access(directory, os.W_OK | os.X_OK):
        hint = "Ask its owner, or whoever mounted it."
        raise UsageError(f"{directory} may not be written, so nothing can be removed.", hint=hint)


def sentence(
    removals: Sequence[Removal], *, also_freed_bytes: int = 0, also: Sequence[str] = ()
) -> str:
    """Say what is gone, and of each run that is not why; `also` are further problems."""
    from tfprobe.report.format import numbers

    gone = sum(each.problem is None for each in removals)
    freed_bytes = also_freed_bytes + sum(each.freed_bytes for each in removals)
    lines = [f"Removed {runs(gone)}, {numbers.size(freed_bytes)} freed."]
    lines += [f"{each.folder.id} {each.problem}." for each in removals if each.problem]
    lines += [f"{problem}." for problem in also]
    return "".join(f"{printable(line)}\n" for line in lines)


def documents(removals: Sequence[Removal], *, also_freed_bytes: int = 0) -> dict[str, Any]:
    """Return the JSON of what is gone and what is not. Any: a JSON document."""
    gone = [
        {"id": each.folder.id, "dir": str(each.folder.root), "freed_bytes": each.freed_bytes}
        for each in removals
        if each.problem is None
    ]
    failed = [
        {"id": each.folder.id, "dir": str(each.folder.root), "problem": each.problem}
        for each in removals
        if each.problem is not None
    ]
    freed_bytes = also_freed_bytes + sum(each.freed_bytes for each in removals)
    return {"removed": gone, "failed": failed, "freed_bytes": freed_bytes}


def runs(count: int) -> str:
    """Write how many runs."""
    return f"{count} run{'' if count == 1 else 's'}"


def _is_terminal(stream: Any) -> bool:
    # Any: a text stream, or None in a program without one.
    return stream is not None and bool(stream.isatty())
