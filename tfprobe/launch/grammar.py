"""Read one value of a setting into its checked form, or say what is wrong with it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

TRACE_LEVELS = ("full", "software", "off")
# In place of a name: a run of its own, whatever the launcher says.
OFF = "off"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# Long enough for a sentence, short enough for a line of a listing.
_LABEL_LENGTH = 100
# A label of Prometheus and a column of SQL may be called so, too.
_TAG_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")
# Another run tomorrow, to all commands that read.
_NO_NAMES = ("latest",)
# Far beyond any job, far below the agent's 64-bit words.
_STEP_LIMIT = 10**15


class Unreadable(ValueError):
    """The value is not what its setting takes; the message says what it takes."""


def steps(value: object) -> list[list[int]]:
    """Read `10-20,50` as inclusive intervals, sorted and merged: [[10, 20], [50, 50]]."""
    intervals = sorted(_interval(part.strip()) for part in str(value).split(","))
    merged: list[list[int]] = []
    for first, last in intervals:
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    return merged


def every(value: object) -> int:
    """Read a distance in steps, at least 1."""
    text = str(value).strip()
    if isinstance(value, bool) or not _is_count(text) or not 1 <= int(text) <= _STEP_LIMIT:
        raise Unreadable("use a whole number, 1 or more, such as 100")
    return int(text)


def budget(value: object) -> float:
    """Read `1%` or `0.01` as a ratio, above 0 and at most 1."""
    text = str(value).strip()
    is_percent = text.endswith("%")
    try:
        ratio = float(text[:-1]) / 100 if is_percent else float(text)
    except ValueError:
        ratio = -1.0
    # A bare 1 is left out: half of those who write it mean 1 %.
    if isinstance(value, bool) or not (0 < ratio < 1 or (is_percent and ratio == 1)):
        raise Unreadable("use a share of the job's time, such as 1% or 0.01")
    return ratio


def trace_level(value: object) -> str:
    """Read how much TensorFlow is asked to trace in a sampled step."""
    text = str(value).strip().lower()
    if text not in TRACE_LEVELS:
        raise Unreadable(f"use one of {', '.join(TRACE_LEVELS)}")
    return text


def run_name(value: object) -> str:
    """Read the name of a run that several launches share, or OFF."""
    text = str(value).strip()
    if isinstance(value, bool) or text in _NO_NAMES or not _NAME.fullmatch(text):
        raise Unreadable("use at most 100 letters, digits, `.`, `_` and `-`, or `off`")
    return text


def label(value: object) -> str:
    """Read the name by which runs of one kind are found again."""
    text = str(value).strip()
    if isinstance(value, bool) or not _is_label(text):
        raise Unreadable(f"use at most {_LABEL_LENGTH} printable characters")
    return text


def tags(value: object) -> dict[str, str]:
    """Read tags: a list of `key=value`, a text of them with commas between, or a table."""
    pairs = [_tag(text, value) for text in _tag_texts(value)]
    for at, (key, _) in enumerate(pairs):
        if key in dict(pairs[:at]):
            raise Unreadable(f"it has the tag {key} twice")
    return dict(pairs)


def switch(value: object) -> bool:
    """Read yes or no."""
    text = str(value).strip().lower()
    if text in ("1", "true", "yes", "on"):
        return True
    if text in ("0", "false", "no", "off"):
        return False
    raise Unreadable("use 1 or 0")


def file(value: object, base: str) -> str:
    """Read the path of a file; a relative one starts at `base`."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise Unreadable("use a path")
    return os.path.normpath(os.path.join(base, os.path.expanduser(value)))


def path(value: object, base: str) -> str:
    """Read the path of the output directory, which goes into PYTHONPATH."""
    absolute = file(value, base)
    if os.pathsep in absolute:
        raise Unreadable(
            f"{absolute} contains {os.pathsep!r}, which separates the directories of PYTHONPATH; "
            "use another directory"
        )
    return absolute


def _tag_texts(value: object) -> Iterable[str]:
    if isinstance(value, Mapping):
        return [f"{key}={text}" for key, text in value.items()]
    if isinstance(value, list):
        return [str(text) for text in value]
    return str(value).split(",")


def _tag(text: str, whole: object) -> tuple[str, str]:
    key, equals, value = (piece.strip() for piece in text.partition("="))
    if not equals or not _TAG_KEY.fullmatch(key) or not _is_label(value):
        which = "" if text == whole else f" in place of {text!r}"
        raise Unreadable(
            f"use KEY=VALUE{which}: a key of at most 63 letters, digits, `_`, `.` and `-`, "
            f"and a value of at most {_LABEL_LENGTH} printable characters"
        )
    return key, value


def _is_label(text: str) -> bool:
    return 0 < len(text) <= _LABEL_LENGTH and text.isprintable()


def _interval(part: str) -> tuple[int, int]:
    first, dash, last = (piece.strip() for piece in part.partition("-"))
    last = last if dash else first
    if not _is_count(first) or not _is_count(last):
        raise Unreadable("use step numbers and ranges, such as 10-20,50")
    if int(first) > int(last):
        raise Unreadable(f"the range {part} ends before it starts")
    if int(last) > _STEP_LIMIT:
        raise Unreadable(f"step {last} is too large")
    return int(first), int(last)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19
