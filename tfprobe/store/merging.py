"""Carry out a merge of runs: a copy of their processes, in which nothing is changed."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tfprobe.errors import Missing, UsageError
from tfprobe.store.catalogue import RunEntry
from tfprobe.store.contents import content_of
from tfprobe.store.copying import copy_file, copy_tree
from tfprobe.store.layout import TEMPORARY_PREFIX, RunFolder, children
from tfprobe.store.merge_plan import Part, Plan

Watch = Callable[[int, int], None]


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """Wait for whoever extends a run, and keep others out: from before `plan` until it is done.

    Where there is no run to extend yet, nobody is waited for.
    """
    with ExitStack() as stack:
        # What is not there is new; all else that cannot be opened `plan` refuses.
        with suppress(OSError):
            descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            # Raises where the file system has no locks, such as NFS for directories: go on without.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def merge(plan: Plan, watch: Watch) -> None:
    """Copy. A new run is there whole or not at all; one that is extended gets whole processes.

    Plan and merge while `alone`. `watch(done, all)` is told the bytes.

    Raises UsageError when it cannot be written.
    """
    try:
        if plan.extends:
            _fill(plan.target, plan, watch)
        else:
            _make(plan, watch)
    except OSError as exc:
        kept = "The processes that were copied are whole" if plan.extends else "Nothing is left"
        raise UsageError(
            f"{plan.target.root} cannot be written: {exc.strerror or exc}. {kept}.",
            hint="Make room or choose another place with -o, and merge again.",
        ) from exc


def _make(plan: Plan, watch: Watch) -> None:
    place = plan.target.root
    os.makedirs(place.parent, exist_ok=True)
    unfinished = RunFolder(_unfinished(place))
    unfinished.root.mkdir(0o700)
    try:
        _fill(unfinished, plan, watch)
        os.rename(unfinished.root, place)
    finally:
        shutil.rmtree(unfinished.root, ignore_errors=True)


def _fill(into: RunFolder, plan: Plan, watch: Watch) -> None:
    done = 0

    def told(size_bytes: int) -> None:
        nonlocal done
        done += size_bytes
        watch(done, plan.size_bytes)

    for part in plan.parts:
        _copy_process(part, into, told)
    for source in plan.sources:
        _add_launches(source.folder, into)
        _add_machines(source.folder, into)
        _add_lines(source.folder.interpreters, into.interpreters)
        _add_lines(source.folder.signals, into.signals)
    if not into.config.exists():
        _copy_config(plan.sources, into)
    _write(into.manifest, json.dumps(_manifest(plan), indent=1).encode() + b"\n")


def _copy_process(part: Part, into: RunFolder, told: Callable[[int], None]) -> None:
    host = into.process(part.folder.host, part.name).root.parent
    host.mkdir(mode=0o700, exist_ok=True)
    unfinished = _unfinished(host / part.name)
    try:
        copy_tree(part.folder.root, unfinished, told)
        os.rename(unfinished, host / part.name)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _add_launches(source: RunFolder, into: RunFolder) -> None:
    """Keep each run.json, and the further launches of its run, as launches of this one."""
    into.launches.mkdir(mode=0o700, exist_ok=True)
    further = [path for path in children(source.launches) if path.suffix == ".json"]
    for path, name in ((source.manifest, f"{source.id}-run.json"), *((p, p.name) for p in further)):
        if path.is_file():
            _add_launch(path, into.launches / name)


def _add_launch(path: Path, place: Path) -> None:
    """Copy a record; where its name is another's, under one that only the same content has."""
    content = content_of(path)
    if place.exists() and content_of(place) != content:
        digest = hashlib.sha256(content).hexdigest()[:8]
        place = place.with_name(f"{place.stem}-{digest}{place.suffix}")
    if not os.path.lexists(place):
        copy_file(path, place)


def _add_machines(source: RunFolder, into: RunFolder) -> None:
    for path in children(source.machine("-").parent):
        if path.suffix == ".jsonl":
            _add_lines(path, into.machine(path.stem))


def _add_lines(source: Path, target: Path) -> None:
    """Append the lines that are not there yet: a run may have been merged before."""
    try:
        lines = content_of(source).splitlines(keepends=True)
    except OSError:
        return  # absent, as in most runs
    target.parent.mkdir(mode=0o700, exist_ok=True)
    there = content_of(target).splitlines(keepends=True) if target.exists() else []
    known = set(there)
    added = [line for line in lines if line.endswith(b"\n") and line not in known]
    if added:
        _write(target, b"".join([*there, *added]))


def _copy_config(sources: Sequence[RunEntry], into: RunFolder) -> None:
    into.boot.mkdir(mode=0o700, exist_ok=True)
    for source in sources:
        if source.folder.config.is_file():
            copy_file(source.folder.config, into.config)
            return


def _manifest(plan: Plan) -> dict[str, Any]:
    """Return run.json: what the launch that was first wrote, and what has been merged."""
    first = plan.target if plan.extends else _first(plan.sources)
    document = _document(first.manifest)
    merged = [*_names(document.get("merged")), *(source.folder.id for source in plan.sources)]
    return {**document, "id": plan.target.id, "merged": list(dict.fromkeys(merged))}


def _names(found: object) -> list[str]:
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _first(sources: Sequence[RunEntry]) -> RunFolder:
    known = [source for source in sources if not isinstance(source.manifest, Missing)]
    return min(known, key=_started_ns).folder if known else sources[0].folder


def _started_ns(source: RunEntry) -> int:
    return 0 if isinstance(source.manifest, Missing) else source.manifest.started_unix_ns


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(content_of(path).decode("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        document = None
    # Of runs that have all lost it: what a reader needs, and nothing made up.
    lost = {"schema": "tfprobe.run/1", "command": [], "pid": 0, "started_unix_ns": 0}
    return document if isinstance(document, dict) else lost


def _write(path: Path, content: bytes) -> None:
    unfinished = _unfinished(path)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.rename(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _unfinished(path: Path) -> Path:
    """Return a name that readers ignore, and that no other command has."""
    return path.with_name(f"{TEMPORARY_PREFIX}{os.urandom(4).hex()}-{path.name}")
