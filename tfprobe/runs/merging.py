"""Carry out a merge of runs: copy their processes unchanged."""

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

from tfprobe.errors import Missing, UnreadableInput, UsageError
from tfprobe.runs import safe_files
from tfprobe.runs.catalogue import RunEntry
from tfprobe.runs.directory_tree import SourceFailed, copy_file, copy_tree
from tfprobe.runs.layout import FAILURES, TEMPORARY_PREFIX, RunFolder, children
from tfprobe.runs.merge_plan import MergePart, Plan

Watch = Callable[[int, int], None]


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """Lock a run that is extended, from before `plan` to the end; waits for other merges into it.

    A target that does not exist yet needs no lock.
    """
    with ExitStack() as stack:
        # A missing target is new; `plan` refuses one that cannot be opened for another reason.
        with suppress(OSError):
            descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            # File systems without locks, such as NFS for directories, raise: continue without one.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def merge(plan: Plan, watch: Watch) -> None:
    """Carry out a plan: write a new run as a whole or not at all, or add whole processes to one.

    Call `plan` and `merge` within `alone`. `watch(done, all)` gets numbers of bytes.

    Raises UsageError if the target cannot be written, UnreadableInput if a source cannot be read.
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

    def copied(size_bytes: int) -> None:
        nonlocal done
        done += size_bytes
        watch(done, plan.size_bytes)

    for part in plan.parts:
        _copy_process(part, into, copied)
    for source in plan.sources:
        _add_launches(source.folder, into)
        _add_machines(source.folder, into)
        _add_lines(source.folder, source.folder.interpreters, into, into.interpreters)
        _add_lines(source.folder, source.folder.signals, into, into.signals)
    if not safe_files.is_file(into.root, into.config):
        _copy_config(plan.sources, into)
    safe_files.write(
        into.root, into.manifest, json.dumps(_manifest(plan), indent=1).encode() + b"\n"
    )


def _copy_process(part: MergePart, into: RunFolder, copied: Callable[[int], None]) -> None:
    target, source = into.process(part.folder.host, part.name).root, part.folder.root
    with (
        safe_files.directory(source.parents[1], source) as original,
        safe_files.directory(into.root, target.parent, make=True) as host,
    ):
        unfinished = _unfinished(host / part.name)
        try:
            copy_tree(original, unfinished, copied)
            os.rename(unfinished, host / part.name)
        except SourceFailed as exc:
            raise _unreadable(source, exc) from exc
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def _add_launches(source: RunFolder, into: RunFolder) -> None:
    """Keep each source's run.json and its launch records as launch records of the merged run."""
    further = [path for path in children(source.launches) if path.suffix == ".json"]
    names = ((source.manifest, f"{source.id}-run.json"), *((path, path.name) for path in further))
    with safe_files.directory(into.root, into.launches, make=True) as launches:
        for path, name in names:
            if safe_files.is_file(source.root, path):
                with safe_files.directory(source.root, path.parent) as place:
                    _add_launch(place / path.name, launches / name)


def _add_launch(path: Path, place: Path) -> None:
    """Copy a record; if another record has its name, choose the name by its content."""
    try:
        content = safe_files.content(path.parent, path)
    except OSError as exc:
        raise _unreadable(Path(path.name), exc) from exc
    if os.path.lexists(place) and _content(place.parent, place) != content:
        digest = hashlib.sha256(content).hexdigest()[:8]
        place = place.with_name(f"{place.stem}-{digest}{place.suffix}")
    if not os.path.lexists(place):
        copy_file(path, place)


def _content(root: Path, path: Path) -> bytes | None:
    """Return the content of a file; None if it does not exist or is a link.

    Raises UnreadableInput if the disk or file server fails.
    """
    try:
        return safe_files.content(root, path)
    except OSError as exc:
        if exc.errno in FAILURES:
            raise _unreadable(path, exc) from exc
        return None


def _unreadable(path: Path, error: OSError) -> UnreadableInput:
    hint = "Nothing is lost there: merge again when its disk or file server answers."
    return UnreadableInput(f"{path} cannot be read: {error.strerror or error}.", hint=hint)


def _add_machines(source: RunFolder, into: RunFolder) -> None:
    for path in children(source.machine("-").parent):
        if path.suffix == ".jsonl":
            _add_lines(source, path, into, into.machine(path.stem))


def _add_lines(run: RunFolder, source: Path, into: RunFolder, target: Path) -> None:
    """Append the lines that are not there yet: the run may have been merged before."""
    content = _content(run.root, source)
    if content is None:
        return  # absent, as in most runs
    lines = content.splitlines(keepends=True)
    there = (_content(into.root, target) or b"").splitlines(keepends=True)
    known = set(there)
    added = [line for line in lines if line.endswith(b"\n") and line not in known]
    if added:
        safe_files.write(into.root, target, b"".join([*there, *added]))


def _copy_config(sources: Sequence[RunEntry], into: RunFolder) -> None:
    with safe_files.directory(into.root, into.boot, make=True):
        pass  # readers recognize a run by this file
    for source in sources:
        config = _content(source.folder.root, source.folder.config)
        if config is not None:
            safe_files.write(into.root, into.config, config)
            return


def _manifest(plan: Plan) -> dict[str, Any]:
    """Return run.json: that of the earliest launch, plus what has been merged."""
    first = plan.target if plan.extends else _first(plan.sources)
    document = _document(first)
    merged = [*_names(document.get("merged")), *(source.folder.id for source in plan.sources)]
    return {**document, "id": plan.target.id, "merged": list(dict.fromkeys(merged))}


def _names(found: object) -> list[str]:
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _first(sources: Sequence[RunEntry]) -> RunFolder:
    known = [source for source in sources if not isinstance(source.manifest, Missing)]
    return min(known, key=_started_ns).folder if known else sources[0].folder


def _started_ns(source: RunEntry) -> int:
    return 0 if isinstance(source.manifest, Missing) else source.manifest.started_unix_ns


def _document(run: RunFolder) -> dict[str, Any]:
    try:
        document = json.loads(safe_files.content(run.root, run.manifest).decode("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        document = None
    # No source has a run.json: write what readers need and invent nothing.
    lost = {"schema": "tfprobe.run/1", "command": [], "pid": 0, "started_unix_ns": 0}
    return document if isinstance(document, dict) else lost


def _unfinished(path: Path) -> Path:
    """Return a name that readers ignore and that no other command uses."""
    return path.with_name(f"{TEMPORARY_PREFIX}{os.urandom(4).hex()}-{path.name}")
