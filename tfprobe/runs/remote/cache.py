"""Where mirrors lie, what is known of the files in them, and which go when there is no room."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tfprobe.runs.layout import TEMPORARY_PREFIX
from tfprobe.runs.sizes import disk_bytes

# All mirrors together; the one that was used longest ago goes first.
MOST_BYTES = 20_000_000_000
MOST_AGE_S = 30 * 24 * 3600
_INDEX = ".index-"
_LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class Known:
    """A file of a mirror as it was when it was fetched."""

    size_bytes: int | None
    stamp: str | None


def place_of(cache: Path, directory_url: str) -> Path:
    """Return the directory of the mirrors of all runs below a URL; make it. Raises OSError."""
    digest = hashlib.sha256(directory_url.rstrip("/").encode(errors="surrogateescape")).hexdigest()
    cache.mkdir(parents=True, exist_ok=True)
    place = cache
    for part in ("tfprobe", "remote", digest[:16]):
        place = place / part
        place.mkdir(mode=0o700, exist_ok=True)
    return place


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Let one program at a time bring mirrors up to date."""
    descriptor = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read_index(place: Path, run_id: str) -> dict[str, Known]:
    """Return what is known of the files of a mirror; nothing where that was lost."""
    try:
        document = json.loads((place / f"{_INDEX}{run_id}").read_bytes())
        return {name: Known(size, stamp) for name, (size, stamp) in document.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write_index(place: Path, run_id: str, files: dict[str, Known]) -> None:
    """Write down what a mirror holds, and that it was used now. Raises OSError."""
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
    """Return the runs that have a mirror there."""
    return [path.name.removeprefix(_INDEX) for path in place.glob(f"{_INDEX}*")]


def make_room(cache: Path, used: Path) -> None:
    """Remove mirrors that were not used for long, and the oldest of too many; none in `used`."""
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
