"""How the server says that there is no answer: a status and a sentence, never where we failed."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response

from tfprobe.errors import NoAnswer, TfprobeError, UnreadableInput, UsageError
from tfprobe.web.server.body import TooMuch

API = "/api"
FAILED = "This answer failed; why is written on the terminal of `tfprobe ui`."
# 400: the question is wrong; 404: there is no answer; 422: there is one that cannot be read.
_STATUSES: tuple[tuple[type[TfprobeError], int], ...] = (
    (TooMuch, 413),
    (UsageError, 400),
    (NoAnswer, 404),
    (UnreadableInput, 422),
)


def status_of(problem: TfprobeError) -> int:
    """Return the status of HTTP for an error of ours."""
    return next((status for kind, status in _STATUSES if isinstance(problem, kind)), 500)


def error_response(
    status: int, sentence: str, *, path: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return what says a sentence: below /api as JSON, `{"error": sentence}`, else as text."""
    if is_api(path):
        text = json.dumps({"error": sentence})
        return Response(text, status, dict(headers or {}), media_type="application/json")
    return Response(f"{sentence}\n", status, dict(headers or {}), media_type="text/plain")


def is_api(path: str) -> bool:
    """Return whether a path is of the API, not of a page."""
    return path == API or path.startswith(f"{API}/")
