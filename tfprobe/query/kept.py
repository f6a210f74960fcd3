"""Keep answers in RUN/derived, to be read instead of made again. Knows no question.

What is there is a cache: it may be deleted at any moment, is ignored where it is stale, damaged or
not of the type that is asked for, and where it cannot be written nothing is lost but time.
"""

from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path
from typing import Any

from tfprobe.query.plain import NotPlain, plain
from tfprobe.runs import safe_files
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.safe_files import content_of

SCHEMA = "tfprobe.kept/1"
# Of a run of 10,000 processes an answer is a tenth of it.
_MOST_BYTES = 1 << 29


def read(path: Path, key: str, kind: Any) -> Any:
    """Return the value that was kept under this key, or None. Any: of the type `kind`."""
    try:
        content = content_of(path, most_bytes=_MOST_BYTES)
        document = json.loads(content, parse_float=_finite, parse_constant=_finite)
        if document["schema"] != SCHEMA or document["key"] != key:
            return None
        return plain(kind).read(document["value"])
    except (OSError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        return None  # whatever somebody has put there


def write(run: RunFolder, path: Path, key: str, value: Any, kind: Any) -> None:
    """Keep a value, of the type `kind`, in a file below `derived`; two that do so do not mix."""
    if not is_ours(run):
        return
    try:
        document = {"schema": SCHEMA, "key": key, "value": plain(kind).write(value)}
        content = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    except (NotPlain, TypeError, ValueError):
        return  # a text that no file can hold, for one
    try:
        safe_files.write(run.root, path, content)
    except OSError:
        return  # a full disk, a run that is being removed


def _finite(text: str) -> float:
    """Refuse NaN and Infinity, also as 1e999: no answer has them, and no document can show them."""
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{text} is no number of an answer")
    return found


def is_ours(run: RunFolder) -> bool:
    """Say whether this user may leave files in a run: in that of another they would be in the way.

    A link in the place of `derived` leads who knows where.
    """
    try:
        owner = os.stat(run.root).st_uid
    except OSError:
        return False
    try:
        found = os.lstat(run.derived)
    except FileNotFoundError:
        return owner == os.geteuid()
    except OSError:
        return False
    return owner == found.st_uid == os.geteuid() and stat.S_ISDIR(found.st_mode)
