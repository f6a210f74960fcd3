"""`tfprobe gc`: old runs go, by number, age and size, and what killed programs left behind."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfprobe.cli import common
from tfprobe.cli.files.rm import (
    agreed,
    check_writable,
    removal_documents,
    removal_options,
    sentence,
)
from tfprobe.cli.read.ls import place_of_runs
from tfprobe.cli.run_filters import as_age, as_size
from tfprobe.errors import NoAnswer, UsageError

if TYPE_CHECKING:
    from tfprobe.analysis.jobs.run_selection import Retention, RetentionRules
    from tfprobe.runs.liveness import Machine


@click.command("gc")
@click.argument("directory", required=False, metavar="[DIR]")
@click.option("--keep", metavar="N", type=click.IntRange(min=1), help="Keep the newest N runs.")
@click.option(
    "--older",
    metavar="AGE",
    callback=as_age,
    help="Remove runs that ended, or last wrote, over AGE ago, as in 90s, 15m, 12h, 7d, 2w.",
)
@click.option(
    "--size",
    metavar="SIZE",
    callback=as_size,
    help="Limit all runs together to SIZE, as in 500M or 20GiB; remove the oldest first.",
)
@removal_options
@common.directory_option
def command(
    directory: str | None,
    output: str | None,
    keep: int | None,
    older: int | None,
    size: int | None,
    force: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Remove the runs of DIR that match any of --keep, --older and --size.

    A run that is still running is never removed. One whose state cannot be determined from here,
    because it ran on another machine or in another container, needs --force. Files that killed
    programs left in DIR are also removed; without a rule, only these.
    """
    from tfprobe.analysis.jobs.run_selection import RetentionRules
    from tfprobe.runs.liveness import this_machine

    place, here = place_of_runs(directory, output), this_machine()
    _refuse_a_run(place)
    plan = _planned(place, RetentionRules(keep, older, size), here, force=force)
    has_loop = bool(plan.retention.goes or plan.leftovers)
    if dry_run or not has_loop:
        return _say(plan, as_json=as_json)
    check_writable(place)
    if not as_json:
        _show(plan)
    if not agreed("Remove that?", yes=yes):
        raise NoAnswer("Nothing was removed.")
    return _remove(plan, here, force=force, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What would go from a directory at this moment."""

    place: Path
    rules: RetentionRules
    retention: Retention
    leftovers: tuple[Path, ...]
    now_ns: int


def _refuse_a_run(place: Path) -> None:
    from tfprobe.runs.layout import RunFolder

    if RunFolder(place).is_run():
        hint = f"To remove it, use `tfprobe rm {place}`."
        raise UsageError(f"{place} is a run, not a directory of runs.", hint=hint)


def _planned(place: Path, rules: RetentionRules, here: Machine, *, force: bool) -> _Plan:
    from tfprobe.analysis.jobs.run_selection import Candidate, choose_removals
    from tfprobe.runs.catalogue import list_runs, measured
    from tfprobe.runs.removal import boot_users, hold, leftovers

    now_ns, users, entries = time.time_ns(), boot_users(here.proc), list_runs(place, here)
    holds = [hold(entry, here, users, now_ns) for entry in entries]
    why = [None if each is None or (force and each.may_be_forced) else each.why for each in holds]
    lines = [entry.line for entry in entries]
    if rules.size_bytes is not None:
        lines = [measured(line) for line in lines]
    candidates = [Candidate(run, reason) for run, reason in zip(lines, why, strict=True)]
    ended = [entry.folder for entry, each in zip(entries, holds, strict=True) if each is None]
    left = leftovers(place, ended, here, now_ns)
    return _Plan(place, rules, choose_removals(candidates, rules, now_ns), left, now_ns)


def _remove(plan: _Plan, here: Machine, *, force: bool, as_json: bool) -> int:
    from tfprobe.runs.directory_tree import delete
    from tfprobe.runs.layout import RunFolder
    from tfprobe.runs.removal import remove

    with common.progress("Removing"):
        # First what a run that goes, too, may hold.
        cleared = [(path, delete(path)) for path in plan.leftovers]
        folders = [RunFolder(Path(goe.run.directory)) for goe in plan.retention.goes]
        removals = remove(folders, here, force=force)
    problems = [f"{path}: {done.problem}" for path, done in cleared if done.problem]
    freed_bytes = sum(done.freed_bytes for _, done in cleared)
    if as_json:
        done_facts = removal_documents(removals, also_freed_bytes=freed_bytes)
        paths = [str(path) for path, done in cleared if done.problem is None]
        more = {"leftovers": paths, "problems": problems, "held": _kept(plan)}
        common.show_json({"schema": "tfprobe.gc/1", **_facts(plan), **done_facts, **more})
    else:
        common.show(sentence(removals, also_freed_bytes=freed_bytes, also=problems))
    is_done = not problems and all(removal.problem is None for removal in removals)
    return 0 if is_done else NoAnswer.exit_code


def _say(plan: _Plan, *, as_json: bool) -> int:
    """Say what would go; nothing does."""
    from tfprobe.cli.read.ls import document

    if not as_json:
        _show(plan)
        return 0
    goes = [{**document(goe.run), "rules": list(goe.rules)} for goe in _measured(plan).goes]
    left = [str(path) for path in plan.leftovers]
    planned = {"would_remove": goes, "leftovers": left, "held": _kept(plan)}
    common.show_json({"schema": "tfprobe.gc/1", **_facts(plan), **planned})
    return 0


def _show(plan: _Plan) -> None:
    from tfprobe.report.text.runs import render_removals

    width, colour = common.page_width(), common.page_colour()
    text = render_removals(
        _measured(plan), plan.rules, len(plan.leftovers), plan.now_ns, width=width, colour=colour
    )
    common.show_page(text)


def _measured(plan: _Plan) -> Retention:
    """Return the choice with the sizes of what goes, which takes a walk."""
    from tfprobe.runs.catalogue import measured

    goes = tuple(replace(goe, run=measured(goe.run)) for goe in plan.retention.goes)
    return replace(plan.retention, goes=goes)


# Any, here and below: a JSON document.
def _facts(plan: _Plan) -> dict[str, Any]:
    rules = plan.rules
    rule_values = {"keep": rules.keep, "older_ns": rules.older_ns, "size_bytes": rules.size_bytes}
    return {"dir": str(plan.place), "rules": rule_values}


def _kept(plan: _Plan) -> list[dict[str, Any]]:
    return [
        {
            "id": run.run.id,
            "dir": run.run.directory,
            "state": run.run.state,
            "rules": list(run.rules),
            "why": run.locked,
        }
        for run in plan.retention.locked
    ]
