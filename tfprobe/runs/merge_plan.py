"""Decide what a merge of runs copies, under which names, and what the user should know."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfprobe.errors import Missing, NoAnswer, UnreadableInput, UsageError
from tfprobe.runs import safe_files
from tfprobe.runs.catalogue import RunEntry, glance, list_runs
from tfprobe.runs.directory_tree import files_below
from tfprobe.runs.layout import LATEST, TEMPORARY_PREFIX, ProcessFolder, RunFolder
from tfprobe.runs.liveness import LIVE, Machine, ProcessEntry
from tfprobe.runs.manifests import RankRecord

_NOT_COPIED = ("derived", "report")
_NAMED_LINKS = 5
# Identifies a process wherever its folder is.
Identity = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class MergePart:
    """One process to copy, and the name of its folder in the merged run."""

    folder: ProcessFolder
    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What a merge does. `notes` are sentences for the user."""

    target: RunFolder
    extends: bool
    sources: tuple[RunEntry, ...]
    parts: tuple[MergePart, ...]
    notes: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts)


def plan(directories: Sequence[Path], target: Path, here: Machine) -> Plan:
    """Determine what is to be copied, and where.

    Raises UnreadableInput for a directory without runs, NoAnswer for a run that is still running or
    if nothing is left to merge, UsageError for a target that exists and is not a merged run.
    """
    into = glance(RunFolder(target), here)
    extends = _extends(into)
    sources = tuple(_sources(directories, into.folder, here))
    if not sources:
        raise NoAnswer(f"There is nothing to merge into {target} but itself.")
    for source in sources:
        if source.state in LIVE:
            hint = "Merge it when it has ended."
            raise NoAnswer(f"{source.folder.root} is {source.state}.", hint=hint)
    try:
        parts, notes = _parts(sources, into.processes)
    except OSError as exc:
        problem = f"{exc.filename or 'A run'} cannot be read: {exc.strerror or exc}."
        raise UnreadableInput(problem, hint="Ask its owner, or leave it out.") from exc
    links = [note for source in sources for note in _links(source.folder)]
    return Plan(into.folder, extends, sources, parts, (*notes, *links, *_claims((into, *sources))))


def _extends(into: RunEntry) -> bool:
    if not os.path.lexists(into.folder.root):
        _check_place(into.folder)
        return False
    if isinstance(into.manifest, Missing) or not into.manifest.merged:
        hint = "Choose another name with -o; only a run that `merge` has made can be extended."
        raise UsageError(f"{into.folder.root} is there already, and is no merged run.", hint=hint)
    return True


def _check_place(target: RunFolder) -> None:
    """Refuse a target where no command would find the run again."""
    why = None
    if target.id == LATEST or target.id.startswith(TEMPORARY_PREFIX):
        why = f"{target.id} is no name of a run"
    inside = next((parent for parent in target.root.parents if RunFolder(parent).is_run()), None)
    if inside is not None:
        why = f"{inside} is a run itself"
    if why is not None:
        raise UsageError(
            f"{target.root} cannot be made: {why}.", hint="Choose another place with -o."
        )


def _sources(directories: Sequence[Path], into: RunFolder, here: Machine) -> Iterator[RunEntry]:
    """Yield each run once, except the one that is being written."""
    seen = {os.path.realpath(into.root)}
    for directory in directories:
        found = list_runs(directory, here) if os.path.isdir(directory) else ()
        if not found:
            hint = "Name runs, or directories of runs."
            raise UnreadableInput(f"There is no run in {directory}.", hint=hint)
        for entry in found:
            place = os.path.realpath(entry.folder.root)
            if place not in seen:
                seen.add(place)
                yield entry


def _parts(
    sources: Sequence[RunEntry], there: Sequence[ProcessEntry]
) -> tuple[tuple[MergePart, ...], list[str]]:
    """Choose a folder name for each process that has not been merged yet. Raises OSError."""
    known = {_identity(process): process.folder for process in there}
    copied = {_look(process.folder): process.folder for process in there if _is_nameless(process)}
    taken = {(folder.host, folder.name) for folder in known.values()}
    parts: dict[Identity, MergePart] = {}
    notes: list[str] = []
    for process in (process for source in sources for process in source.processes):
        folder, who = process.folder, _identity(process)
        if not safe_files.is_directory(folder.root.parents[1], folder.root):
            continue  # reported by `_links`
        size_bytes = _size_bytes(folder)
        if _is_nameless(process) and (copy := copied.get(_look(folder))) is not None:
            known.setdefault(who, copy)
        if who in known:
            notes.append(_twice(folder, known[who]))
            # One of the two was copied from its host while the process was running.
            if who in parts and size_bytes > parts[who].size_bytes:
                parts[who] = MergePart(folder, parts[who].name, size_bytes)
            continue
        name = _free_name(folder, taken)
        if name != folder.name:
            notes.append(_renamed(process, name))
        known[who] = folder
        taken.add((folder.host, name))
        parts[who] = MergePart(folder, name, size_bytes)
    return tuple(parts.values()), notes


def _links(run: RunFolder) -> Iterator[str]:
    """Yield a sentence if a run contains links: their targets are not merged."""
    found: list[str] = []
    for place, folders, files in os.walk(run.root):
        below = Path(place).relative_to(run.root)
        folders[:] = [name for name in folders if str(below / name) not in _NOT_COPIED]
        names = (below / name for name in (*folders, *files))
        found += [str(name) for name in names if os.path.islink(run.root / name)]
    if found:
        some = ", ".join(sorted(found)[:_NAMED_LINKS])
        more = f" and {len(found) - _NAMED_LINKS} more" if len(found) > _NAMED_LINKS else ""
        yield f"Links in {run.id} are left out, with what they lead to: {some}{more}."


def _twice(folder: ProcessFolder, known: ProcessFolder) -> str:
    return f"{_where(folder)} and {_where(known)} are one process; it is there once."


def _renamed(process: ProcessEntry, name: str) -> str:
    folder = process.folder
    if _is_nameless(process):
        return f"Which process {_where(folder)} is cannot be read: it becomes {name}."
    return f"Two hosts are called {folder.host}: {_where(folder)} becomes {name}."


def _identity(process: ProcessEntry) -> Identity:
    """Return what distinguishes a process from all others, even on hosts of the same name."""
    facts, folder = process.manifest, process.folder
    if isinstance(facts, Missing):
        header = process.header
        if isinstance(header, Missing):
            # Nothing in it identifies the process: no two such folders count as the same.
            return (os.path.realpath(folder.root),)
        return folder.host, folder.name, (header.pid, header.moment_unix_ns)
    service = None if facts.service is None else facts.service.address
    ticks = facts.pid_started_ticks
    return facts.host, facts.boot_id, facts.pid, ticks, facts.started_unix_ns, service


def _is_nameless(process: ProcessEntry) -> bool:
    return isinstance(process.manifest, Missing) and isinstance(process.header, Missing)


def _look(folder: ProcessFolder) -> Identity:
    """Return what a copy has in common with its original. Raises OSError."""
    files = files_below(folder.root)
    seen = ((path.relative_to(folder.root), of.st_size, of.st_mtime_ns) for path, of in files)
    return (folder.host, *seen)


def _free_name(folder: ProcessFolder, taken: set[tuple[str, str]]) -> str:
    name, number = folder.name, 2
    while (folder.host, name) in taken:
        name, number = f"{folder.name}-{number}", number + 1
    return name


def _claims(runs: Sequence[RunEntry]) -> Iterator[str]:
    """Yield a sentence for each rank that several processes claim.

    The children of a process inherit its variables, and with them its rank: they do not count.
    """
    known: dict[Identity, tuple[ProcessFolder, Identity, RankRecord | None]] = {}
    for process in (process for run in runs for process in run.processes):
        facts = process.manifest
        if not isinstance(facts, Missing):
            parent: Identity = (facts.host, facts.boot_id, facts.ppid)
            me: Identity = (facts.host, facts.boot_id, facts.pid)
            known.setdefault(me, (process.folder, parent, facts.rank))
    claims: dict[tuple[str, int], list[str]] = defaultdict(list)
    for folder, above, rank in known.values():
        if rank is not None and above not in known:
            claims[rank.role or "rank", rank.index].append(_where(folder))
    for (role, index), places in sorted(claims.items()):
        if len(places) > 1:
            yield f"{len(places)} processes say that they are {role} {index}: {', '.join(places)}."


def _size_bytes(folder: ProcessFolder) -> int:
    return sum(facts.st_size for _, facts in files_below(folder.root))


def _where(folder: ProcessFolder) -> str:
    return f"{folder.root.parent.parent.name}/{folder.host}/{folder.name}"
