"""Unpack files that may be compressed with gzip."""

from __future__ import annotations

import gzip
import zlib

from tfprobe.errors import UnreadableInput

_MAGIC = b"\x1f\x8b"


def unpacked(content: bytes) -> bytes:
    """Return the content of a file, decompressed if it begins as gzip does.

    Raises UnreadableInput if it is damaged.
    """
    if not content.startswith(_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as exc:
        raise UnreadableInput(f"damaged gzip ({exc})") from exc
