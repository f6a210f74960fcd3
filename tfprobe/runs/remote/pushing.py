"""Copy a run to a storage, where readers see it as a run only once all of it has arrived."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tfprobe.errors import UnreadableInput, UsageError
from tfprobe.runs import safe_files
from tfprobe.runs.directory_tree import files_below
from tfprobe.runs.layout import (
    PROCESS_MANIFEST,
    RUN_MANIFEST,
    STEPS_FILE,
    RunFolder,
    may_hold_processes,
)
from tfprobe.runs.process_folder.steps_layout import bytes_in_use
from tfprobe.runs.remote.storage import AT_ONCE, RemoteFile, Storage

Watch = Callable[[int, int], None]

_LEFT_OUT = ("boot", "derived", "report")
_KEPT = ("boot/config.json", "boot/interpreters.tsv", "boot/signals.tsv")
# Written once, as a whole: in one process's folder, equal name and size mean equal content.
_CONSTANT = ("captures", "graphs", "code")
_WHO = ("host", "pid", "started_unix_ns")
_ELSEWHERE = "Push to another directory."


@dataclass(frozen=True, slots=True)
class Pushed:
    """Result of a push: where the run is now, files copied, their bytes, files already there."""

    url: str
    files: int
    size_bytes: int
    already_there: int


def push(run: RunFolder, directory_url: str, watch: Watch) -> Pushed:
    """Copy a run below a URL. What an earlier push copied is not copied again.

    `watch(done, all)` gets numbers of files. run.json comes last: without it readers see no run.

    Raises UsageError if a different run has that name there, and UnreadableInput.
    """
    manifest = _manifest(run)
    url = f"{directory_url.rstrip('/')}/{run.id}"
    storage = Storage(url)
    _refuse_another(manifest, storage)
    there = _files_there(storage)
    try:
        local = dict(_files(run))
        _refuse_other_processes(run, local, storage, there)
        missing = [name for name in local if not _is_there(name, local[name], there)]
        copied = _put(run, storage, missing, watch)
        storage.put_bytes(manifest, RUN_MANIFEST)
    except OSError as exc:
        problem = f"{exc.filename or run.root} cannot be read: {exc.strerror or exc}."
        raise UnreadableInput(problem) from exc
    return Pushed(storage.shown, len(missing) + 1, copied, len(local) - len(missing))


def _manifest(run: RunFolder) -> bytes:
    try:
        return safe_files.content(run.root, run.manifest)
    except OSError as exc:
        problem = f"{run.manifest} cannot be read: {exc.strerror or exc}."
        hint = f"`tfprobe merge {run.root} -o OTHER` makes a run of what is left."
        raise UnreadableInput(problem, hint=hint) from exc


def _refuse_another(manifest: bytes, storage: Storage) -> None:
    there = storage.read(RUN_MANIFEST)
    if there is None:
        return
    # A merged run may have been extended since it was pushed.
    if _who(there) != _who(manifest) or not _merged(there) <= _merged(manifest):
        raise UsageError(f"{storage.shown} is another run of this name.", hint=_ELSEWHERE)


def _who(manifest: bytes) -> tuple[object, ...]:
    try:
        document = json.loads(manifest)
        return tuple(document[name] for name in _WHO)
    except (ValueError, LookupError, TypeError, RecursionError):
        return ()


def _merged(manifest: bytes) -> set[str]:
    try:
        merged = json.loads(manifest).get("merged")
    except (ValueError, AttributeError, RecursionError):
        return set()
    return {each for each in merged if isinstance(each, str)} if isinstance(merged, list) else set()


def _refuse_other_processes(
    run: RunFolder, local: Iterable[str], storage: Storage, there: Iterable[str]
) -> None:
    """Refuse to push if the storage has processes that the run lacks: readers would count them."""
    folders = {name.rpartition("/")[0] for name in there if _is_of_process(name)}
    others = sorted(folders - {"/".join(name.split("/")[:2]) for name in local})
    if others:
        problem = (
            f"{storage.shown} holds {others[0]}, which {run.root} does not: "
            "it is of another run of this name."
        )
        raise UsageError(problem, hint=_ELSEWHERE)


def _is_of_process(name: str) -> bool:
    host, _, rest = name.partition("/")
    file = rest.partition("/")[2]
    return may_hold_processes(host) and file in (PROCESS_MANIFEST, STEPS_FILE)


def _files(run: RunFolder) -> Iterator[tuple[str, int]]:
    for path, facts in files_below(run.root):
        name = path.relative_to(run.root).as_posix()
        is_left_out = name.partition("/")[0] in _LEFT_OUT and name not in _KEPT
        if name != RUN_MANIFEST and not is_left_out:
            yield name, facts.st_size


def _files_there(storage: Storage) -> dict[str, RemoteFile]:
    try:
        return storage.files_below("", lambda _: True)
    except UnreadableInput as problem:
        if isinstance(problem.__cause__, FileNotFoundError):
            return {}  # the first push
        raise


def _is_there(name: str, size_bytes: int, there: dict[str, RemoteFile]) -> bool:
    is_constant = Path(name).parent.name in _CONSTANT
    return is_constant and name in there and there[name].size_bytes == size_bytes


def _put(run: RunFolder, storage: Storage, names: list[str], watch: Watch) -> int:
    def one(name: str) -> int:
        path = run.root / name
        # Opened first, so that a problem with the local file is not reported as the storage's.
        with os.fdopen(safe_files.opened(run.root, path), "rb") as file:
            opened = safe_files.path_of(file.fileno())
            if path.name != STEPS_FILE:
                storage.put(os.fspath(opened), name)
                return os.fstat(file.fileno()).st_size
            # It has the size of all the loops it has room for; the unused part is zeros.
            content = file.read(bytes_in_use(opened))
        storage.put_bytes(content, name)
        return len(content)

    total = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done, size_bytes in enumerate(pool.map(one, names), 1):
            total += size_bytes
            watch(done, len(names))
    return total
