"""Can recordings live where they would be written? Tries a file as the agent makes them."""

from __future__ import annotations

import mmap
import os
import shutil
from pathlib import Path

from tfprobe.launch.doctor.check import Check

# The header and a first work of steps.bin.
_FIRST_BYTES = (512 + 19_968) * 8
# A capture of a large model is tens of megabytes; a run with less room soon stops sampling.
_COMFORTABLE_FREE_BYTES = 500_000_000


def checks(folder: Path) -> list[Check]:
    """Try the file system of a freshly made run directory."""
    written = Check.passed("output", f"{folder.parent} can be written.")
    return [written, _shared_memory_file(folder / "doctor.bin"), _space(folder)]


def _shared_memory_file(path: Path) -> Check:
    try:
        with path.open("w+b") as file:
            os.posix_fallocate(file.fileno(), 0, _FIRST_BYTES)
            with mmap.mmap(file.fileno(), _FIRST_BYTES) as memory:
                memory[-8:] = b"recorded"
            file.seek(_FIRST_BYTES - 8)
            is_shared = file.read() == b"recorded"
    except (OSError, ValueError) as exc:
        return _without_mmap(str(exc))
    finally:
        path.unlink(missing_ok=True)
    if not is_shared:
        return _without_mmap("what was written did not arrive in the file")
    return Check.passed("mmap", "Its file system maps files into memory.")


def _without_mmap(reason: str) -> Check:
    return Check.warning(
        "mmap",
        f"Its file system does not map files into memory ({reason}): steps cost more to record.",
        "Choose a local directory with -o.",
    )


def _space(folder: Path) -> Check:
    free_bytes = shutil.disk_usage(folder).free
    free = f"{free_bytes / 1e9:.1f} GB"
    if free_bytes < _COMFORTABLE_FREE_BYTES:
        return Check.warning(
            "space",
            f"Only {free} are free: a recording may end early.",
            "Free some space or choose another directory with -o.",
        )
    return Check.passed("space", f"{free} are free.")
