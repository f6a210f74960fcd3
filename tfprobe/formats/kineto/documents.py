"""Parse the JSON of a trace, a large one part by part, so that it is never in memory as a whole.

libkineto has written names without escaping them, and NaN: what the fast parser refuses, the
standard one may read.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from tfprobe.errors import UnreadableInput

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
# A larger file is parsed in parts of this size; parsed events take some ten times their bytes.
_PART_BYTES = 2**24
# The standard parser takes ten times as long, and more memory.
_MOST_PLAIN_BYTES = 2**28


def documents(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the document, or parts of it that each contain some of its events."""
    begins = _EVENTS.search(content) if len(content) > 2 * _PART_BYTES else None
    if begins is not None:
        try:
            yield _parsed_object(content[: begins.end()] + b"]}")
            yield from _parts(content, begins.end())
            return
        except _NotInParts as exc:
            if exc.is_begun:
                raise UnreadableInput(f"not JSON ({exc})") from exc
    document = _parsed(content)
    yield {"traceEvents": document} if isinstance(document, list) else _as_object(document)


class _NotInParts(Exception):
    """The file cannot be divided; `is_begun` if some of it has been given already."""

    def __init__(self, why: object, *, is_begun: bool = False) -> None:
        super().__init__(why)
        self.is_begun = is_begun


def _parts(content: bytes, start: int) -> Iterator[dict[str, Any]]:
    """Yield the events from `start` on, part by part.

    A part ends between two objects. If these are not events but within one, or in a text, the part
    is no JSON: then the next place is tried.
    """
    is_begun = False
    while len(content) - start > 2 * _PART_BYTES:
        tries = 0
        for between in _BETWEEN.finditer(content, start + _PART_BYTES):
            tries += 1
            try:
                events = orjson.loads(b"[" + content[start : between.start() + 1] + b"]")
            except orjson.JSONDecodeError as exc:
                if tries > 8 or between.start() - start > 4 * _PART_BYTES:
                    raise _NotInParts(exc, is_begun=is_begun) from exc
                continue
            yield {"traceEvents": events}
            is_begun, start = True, between.end()
            break
        else:
            break
    try:
        yield _as_object(orjson.loads(b'{"traceEvents": [' + content[start:]))
    except orjson.JSONDecodeError as exc:
        raise _NotInParts(exc, is_begun=is_begun) from exc


def _parsed_object(content: bytes) -> dict[str, Any]:
    try:
        return _as_object(orjson.loads(content))
    except orjson.JSONDecodeError as exc:
        raise _NotInParts(exc) from exc


def _parsed(content: bytes) -> Any:
    """Return a document. Any: JSON."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as exc:
        if len(content) > _MOST_PLAIN_BYTES:
            raise UnreadableInput(f"not JSON ({exc})") from exc
    try:
        return json.loads(content, strict=False)
    except (ValueError, RecursionError) as exc:
        raise UnreadableInput(f"not JSON ({exc})") from exc


def _as_object(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise UnreadableInput("JSON without trace events")
    return document


@contextmanager
def without_collecting() -> Iterator[None]:
    """Keep the garbage collector off: it would look at a million new objects again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
