"""Mirror runs of remote storage: fetch only changed files, and remove files that are gone."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tfprobe.errors import NoAnswer, UsageError
from tfprobe.runs.directory_tree import disk_bytes
from tfprobe.runs.layout import PROCESS_MANIFEST, RUN_MANIFEST, STEPS_FILE, TEMPORARY_PREFIX
from tfprobe.runs.remote.storage import AT_ONCE, RemoteFile, Storage, is_plain

# For all mirrors together; the least recently used one is removed first.
MOST_BYTES = 20_000_000_000
MOST_AGE_S = 30 * 24 * 3600
_INDEX = ".index-"
_LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class Known:
    """The state of a mirrored file when it was fetched."""

    size_bytes: int | None
    stamp: str | None


def place_of(cache: Path, directory_url: str) -> Path:
    """Create and return the directory for the mirrors of all runs below a URL. Raises OSError."""
    digest = hashlib.sha256(directory_url.rstrip("/").encode(errors="surrogateescape")).hexdigest()
    cache.mkdir(parents=True, exist_ok=True)
    place = cache
    for part in ("tfprobe", "remote", digest[:16]):
        place = place / part
        place.mkdir(mode=0o700, exist_ok=True)
    return place


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Let one program at a time update mirrors."""
    descriptor = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read_index(place: Path, run_id: str) -> dict[str, Known]:
    """Return what is known of the files of a mirror; nothing if the index was lost."""
    try:
        document = json.loads((place / f"{_INDEX}{run_id}").read_bytes())
        return {name: Known(size, stamp) for name, (size, stamp) in document.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write_index(place: Path, run_id: str, files: dict[str, Known]) -> None:
    """Record the contents of a mirror, and that it was used now. Raises OSError."""
    path = place / f"{_INDEX}{run_id}"
    unfinished = path.with_name(TEMPORARY_PREFIX + path.name)
    document = {name: [known.size_bytes, known.stamp] for name, known in files.items()}
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(document, file)
    unfinished.replace(path)


def forget(place: Path, run_id: str) -> None:
    """Remove a mirror."""
    shutil.rmtree(place / run_id, ignore_errors=True)
    (place / f"{_INDEX}{run_id}").unlink(missing_ok=True)


def mirrors_in(place: Path) -> list[str]:
    """Return the ids of the runs that are mirrored there."""
    return [path.name.removeprefix(_INDEX) for path in place.glob(f"{_INDEX}*")]


def make_room(cache: Path, used: Path) -> None:
    """Remove mirrors unused for long, and the oldest if there are too many; keep `used`."""
    root, now_s = cache / "tfprobe" / "remote", time.time()
    found = [
        (index.stat().st_mtime, index.parent, index.name.removeprefix(_INDEX))
        for index in root.glob(f"*/{_INDEX}*")
        if index.parent != used
    ]
    taken = disk_bytes(used)
    for used_s, place, run_id in sorted(found, reverse=True):
        taken += disk_bytes(place / run_id)
        if taken > MOST_BYTES or now_s - used_s > MOST_AGE_S:
            forget(place, run_id)


Watch = Callable[[int, int], None]

_CHUNK_BYTES = 1 << 16
# From this size on it pays to leave out a file's zeros: steps.bin consists mostly of holes.
_SPARSE_BYTES = 1 << 20
_GLANCE = (RUN_MANIFEST, PROCESS_MANIFEST, STEPS_FILE)
_LEFT_OUT = ("derived", "report")
_BOOT_FILES = ("boot/config.json", "boot/interpreters.tsv", "boot/signals.tsv")
# Written once, as a whole: equal sizes suffice if a storage reports nothing else.
_CONSTANT = ("captures", "graphs", "code")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which files of a run are needed."""

    glance_only: bool

    def enters(self, directory: str) -> bool:
        """Return whether a directory, named relative to the run, may contain needed files."""
        parts = directory.split("/")
        if parts[0] in _LEFT_OUT or any(part.startswith(".") for part in parts):
            return False
        if parts[0] == "boot":
            return len(parts) == 1
        return not self.glance_only or len(parts) <= 2

    def wants(self, name: str) -> bool:
        """Return whether a file, named relative to the run, is needed."""
        parts = name.split("/")
        if not self.enters("/".join(parts[:-1])) or parts[-1].startswith("."):
            return False
        if parts[0] == "boot":
            return name in _BOOT_FILES
        return not self.glance_only or parts[-1] in _GLANCE or parts[0] == "launches"


WHOLE, GLANCE = Scope(False), Scope(True)


def fetched_run(url: str, cache_home: Path, watch: Watch) -> Path:
    """Return the mirror of the run at a URL, or of the newest run there.

    Raises UnreadableInput, NoAnswer and UsageError.
    """
    url = url.rstrip("/")
    storage = Storage(url)
    if not _is_run(storage):
        newest = _newest(storage)
        url, storage = f"{url}/{newest}", Storage(f"{url}/{newest}")
    directory_url, _, run_id = url.rpartition("/")
    if not is_plain(run_id) or run_id.startswith("."):
        raise UsageError(f"{storage.shown} ends in no name of a run.")
    return _mirrored(cache_home, directory_url, {run_id: storage}, WHOLE, watch) / run_id


def fetched_directory(url: str, cache_home: Path, scope: Scope, watch: Watch) -> Path:
    """Return a mirror of all runs in the directory at a URL, or of the single run there."""
    url = url.rstrip("/")
    storage = Storage(url)
    if _is_run(storage):
        return fetched_run(url, cache_home, watch)
    runs = {run_id: Storage(f"{url}/{run_id}") for run_id in _runs_in(storage)}
    place = _mirrored(cache_home, url, runs, scope, watch)
    for gone in set(mirrors_in(place)) - runs.keys():
        forget(place, gone)
    return place


def _is_run(storage: Storage) -> bool:
    return RUN_MANIFEST in storage.listed().files


def _runs_in(storage: Storage) -> dict[str, int]:
    """Return the runs of a directory and when each began, except those still being pushed."""
    names = [name for name in storage.listed().directories if not name.startswith(".")]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        manifests = pool.map(lambda name: storage.read(f"{name}/{RUN_MANIFEST}"), names)
        return {
            name: _started_ns(manifest)
            for name, manifest in zip(names, manifests, strict=True)
            if manifest is not None
        }


def _newest(storage: Storage) -> str:
    runs = _runs_in(storage)
    if runs:
        return max(runs, key=lambda name: (runs[name], name))
    hint = "It has no run.json, which `tfprobe push` writes last, and no directory in it has one."
    raise NoAnswer(f"There is no run at {storage.shown}.", hint=hint)


def _started_ns(manifest: bytes) -> int:
    try:
        started = json.loads(manifest)["started_unix_ns"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return 0
    return started if isinstance(started, int) else 0


def _mirrored(
    cache_home: Path, directory_url: str, runs: Mapping[str, Storage], scope: Scope, watch: Watch
) -> Path:
    """Update the mirrors of these runs; return the directory that contains them."""
    try:
        place = place_of(cache_home, directory_url)
        with locked(place):
            for run_id, storage in runs.items():
                _update(place, run_id, storage, scope, watch)
        make_room(cache_home, place)
    except OSError as exc:
        problem = f"{cache_home} cannot be written: {exc.strerror or exc}."
        hint = "Mirrors of remote runs are kept there; set XDG_CACHE_HOME to another place."
        raise UsageError(problem, hint=hint) from exc
    return place


def _update(place: Path, run_id: str, storage: Storage, scope: Scope, watch: Watch) -> None:
    root = place / run_id
    root.mkdir(mode=0o700, exist_ok=True)
    known = read_index(place, run_id)
    listed = storage.files_below("", scope.enters)
    wanted = {name: file for name, file in listed.items() if scope.wants(name)}
    there = dict(zip(wanted, storage.known(wanted.values()), strict=True))
    for name in [name for name in known if scope.wants(name) and name not in there]:
        del known[name]
        (root / name).unlink(missing_ok=True)
    new = {
        name: file
        for name, file in there.items()
        if not _is_same(root / name, known.get(name), file)
    }
    try:
        _fetch(root, storage, new, known, watch)
    finally:
        write_index(place, run_id, known)


def _is_same(path: Path, known: Known | None, file: RemoteFile) -> bool:
    """Return whether a file need not be fetched again."""
    if known is None or not path.is_file() or known.size_bytes != file.size_bytes:
        return False
    if file.stamp is None:
        return file.size_bytes is not None and path.parent.name in _CONSTANT
    return known.stamp == file.stamp


def _fetch(
    root: Path,
    storage: Storage,
    files: Mapping[str, RemoteFile],
    known: dict[str, Known],
    watch: Watch,
) -> None:
    for directory in sorted({(root / name).parent for name in files}):
        _make_directories(directory, root)

    def one(name: str) -> tuple[str, bool]:
        return name, _fetch_file(root / name, storage, files[name])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done, (name, is_there) in enumerate(pool.map(one, files), 1):
            if is_there:
                known[name] = Known(files[name].size_bytes, files[name].stamp)
            watch(done, len(files))


def _make_directories(directory: Path, root: Path) -> None:
    """Create a directory and its parents, each private."""
    for part in reversed([directory, *directory.parents]):
        if part.is_relative_to(root):
            part.mkdir(mode=0o700, exist_ok=True)


def _fetch_file(path: Path, storage: Storage, file: RemoteFile) -> bool:
    unfinished = path.with_name(TEMPORARY_PREFIX + path.name[:200])
    try:
        if not storage.fetch(file, str(unfinished)):
            path.unlink(missing_ok=True)
            return False
        os.chmod(unfinished, 0o600)
        if unfinished.stat().st_size >= _SPARSE_BYTES:
            _leave_out_zeros(unfinished)
        if file.modified_s is not None:
            os.utime(unfinished, (file.modified_s, file.modified_s))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return True


def _leave_out_zeros(path: Path) -> None:
    """Rewrite a file with holes in place of its zeros."""
    sparse = path.with_name(f"{path.name}~")
    with path.open("rb") as reader, sparse.open("wb") as writer:
        os.fchmod(writer.fileno(), 0o600)
        for chunk in iter(lambda: reader.read(_CHUNK_BYTES), b""):
            if any(chunk):
                writer.write(chunk)
            else:
                writer.seek(len(chunk), os.SEEK_CUR)
        writer.truncate(reader.tell())
    sparse.replace(path)
