"""Read the few words that a page posts. No request of ours has a long body."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import ClientDisconnect, Request

from tfprobe.errors import UsageError

MOST_BYTES = 4096


class TooMuch(UsageError):
    """A request brings more than any of ours does."""


async def fields(request: Request) -> dict[str, Any]:
    """Return the JSON object that a request brings. Any: JSON values, checked by who takes them.

    Raises UsageError for what is none, TooMuch for one that is too long.
    """
    content = b""
    try:
        async for part in request.stream():
            content += part
            if len(content) > MOST_BYTES:
                raise TooMuch(f"A request may bring {MOST_BYTES:,} bytes.")
    except ClientDisconnect as exc:
        raise UsageError("The client disconnected in the middle of the request.") from exc
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise UsageError("The request brings no JSON object.")
    return body
