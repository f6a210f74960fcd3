"""What is answered under which address. Who may ask is checked before: see guard."""

from __future__ import annotations

import asyncio
import hashlib
import json
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from tfprobe.errors import NoAnswer, TfprobeError, UsageError
from tfprobe.live.trace_requests import document, request_traces
from tfprobe.report.documents.document import Document
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine, this_machine
from tfprobe.web import bundle
from tfprobe.web.pages import runs, trials
from tfprobe.web.params import Params
from tfprobe.web.run_cache import RunCache
from tfprobe.web.server import body, perfetto, trace
from tfprobe.web.server.auth import Guard, Keys
from tfprobe.web.server.errors import FAILED, error_response, status_of
from tfprobe.web.server.events import Events, Stream
from tfprobe.web.server.hosts import Headers, Hosts
from tfprobe.web.server.trace import in_thread
from tfprobe.web.snapshot_cache import Looks

Complain = Callable[[str], None]

_NOTHING_HERE = "There is nothing at this address."
_JAVASCRIPT = "text/javascript"
_PIECE_BYTES = 1 << 16


def application(directory: Path) -> ASGIApp:
    """Return the pages for whoever asks: for tests of nothing else."""
    return Headers(Pages(directory, complain=lambda _: None).app())


class Pages:
    """All runs below a directory, or the one run that it is, as answers to requests."""

    def __init__(self, directory: Path, *, complain: Complain) -> None:
        """Begin with nothing read. `complain` receives failures of ours."""
        self._here, place = this_machine(), directory.resolve()
        self._directory = place
        self._book = RunCache(place, self._here)
        self._looks = Looks(place, self._here)
        self.events = Events(self._looks.look, note=self._book.has_grown)
        self._complain = complain

    def guarded(self, *, keys: Keys, hosts: Hosts) -> ASGIApp:
        """Return the pages for those whom the keys open for, who ask for one of these hosts."""
        return Headers(Guard(self.app(), keys=keys, hosts=hosts))

    def app(self) -> Starlette:
        """Return the pages for whoever asks."""
        found = Starlette(
            routes=[
                Route("/", self._index),
                Route("/libraries.js", self._libraries),
                Route("/page.css", self._style),
                Route("/page.js", self._script),
                Route("/api/events", self._events),
                Route("/api/run/{run}/sample", self._sample, methods=["POST"]),
                Route("/api/run/{run}/trace", self._trace),
                Route("/api/run/{run}/{name}", self._of_run),
                Route("/api/runs", self._runs),
                Route("/api/trials", self._trials),
                Route("/api/perfetto", self._perfetto),
                *perfetto.routes(),
            ],
            exception_handlers={
                TfprobeError: self._no_answer,
                HTTPException: self._not_found,
                Exception: self._failed,
            },
        )
        found.router.redirect_slashes = False
        return found

    async def _index(self, request: Request) -> Response:
        text = (bundle.STATIC / "index.html").read_text(encoding="utf-8")
        return _kept(request, text, "text/html")

    async def _libraries(self, request: Request) -> Response:
        return _kept(request, bundle.libraries(), _JAVASCRIPT)

    async def _style(self, request: Request) -> Response:
        return _kept(request, bundle.style(), "text/css")

    async def _script(self, request: Request) -> Response:
        return _kept(request, bundle.script(), _JAVASCRIPT)

    async def _runs(self, _: Request) -> Response:
        return await _document(lambda: runs.document(self._looks.look()))

    async def _trials(self, request: Request) -> Response:
        question = Params(dict(request.query_params))
        return await _document(lambda: self._answer_of_trials(question))

    def _answer_of_trials(self, question: Params) -> Document:
        """Return the trials of all runs, or of the one run that the directory is."""
        alone = RunFolder(self._directory)
        if alone.is_run():
            return self._answer(alone.id, "trials", question)
        try:
            return trials.directory_document(self._directory, question)
        except NoAnswer as exc:
            return {"missing": str(exc)}

    async def _perfetto(self, _: Request) -> Response:
        return await _document(perfetto.document)

    async def _of_run(self, request: Request) -> Response:
        run, name = request.path_params["run"], request.path_params["name"]
        question = Params(dict(request.query_params))
        return await _document(lambda: self._answer(run, name, question))

    def _answer(self, run: str, name: str, question: Params) -> Document:
        """Return a document, or the sentence why a run that is there has none.

        That is an answer, too: a browser would note any status but 200 as a failure.
        """
        try:
            return self._book.answer(run, name, question)
        except NoAnswer as exc:
            self._book.folder(run)
            return {"missing": str(exc)}

    async def _events(self, request: Request) -> ASGIApp:
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return Stream(self.events)

    async def _sample(self, request: Request) -> Response:
        run, fields = request.path_params["run"], await body.fields(request)
        return await _document(
            lambda: record_steps(self._book.checked_folder(run), self._here, fields)
        )

    async def _trace(self, request: Request) -> Response:
        name, question = request.path_params["run"], Params(dict(request.query_params))
        found = await in_thread(lambda: trace.traced(self._book.opened(name), question))
        is_packed = "gzip" in request.headers.get("accept-encoding", "")
        return trace.sent(found, name="timeline.json", is_packed=is_packed)

    async def _no_answer(self, request: Request, problem: Exception) -> Response:
        assert isinstance(problem, TfprobeError)
        return error_response(status_of(problem), str(problem), path=request.url.path)

    async def _not_found(self, request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        sentence = _NOTHING_HERE if problem.status_code == 404 else f"{problem.detail}."
        headers = problem.headers
        return error_response(problem.status_code, sentence, path=request.url.path, headers=headers)

    async def _failed(self, request: Request, problem: Exception) -> Response:
        trace = "".join(traceback.format_exception(type(problem), problem, problem.__traceback__))
        self._complain(f"An answer failed, which is a bug in tfprobe: {request.url.path}")
        for line in trace.splitlines():
            self._complain(line)
        return error_response(500, FAILED, path=request.url.path)


async def _document(make: Callable[[], Document]) -> Response:
    """Make a document, and its text, in a thread."""

    def content() -> bytes:
        text = json.dumps(make(), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        # Half a character, as names of files may have, is none in UTF-8.
        return text.encode("utf-8", "replace")

    return Response(await in_thread(content), media_type="application/json")


def _kept(request: Request, text: str, media_type: str) -> Response:
    """Return a part of the front end, or that the browser's own copy of it is still right."""
    content, tag = _tagged(text)
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    headers = {"ETag": tag, "Content-Length": str(len(content))}
    return StreamingResponse(_in_pieces(content), headers=headers, media_type=media_type)


@lru_cache(maxsize=8)
def _tagged(text: str) -> tuple[bytes, str]:
    """Return the same bytes for all who are sent them, and what tells them from others."""
    content = text.encode()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'


async def _in_pieces(content: bytes) -> AsyncIterator[bytes]:
    """Give as much as is taken: these are for everybody, and somebody may ask and never read."""
    for at in range(0, len(content), _PIECE_BYTES):
        yield content[at : at + _PIECE_BYTES]
        # So that a client that disconnects meanwhile is noticed.
        await asyncio.sleep(0)


DEFAULT_STEPS = 5
# A step that is under way has to end before a process can answer.
PATIENCE_S = 10.0


def record_steps(run: RunFolder, here: Machine, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Request traces of the next `steps` from all processes of a run; return their answers.

    Any: JSON values. Raises as `request_traces`, and UsageError unless `steps` is a number.
    """
    steps = fields.get("steps", DEFAULT_STEPS)
    if not isinstance(steps, int) or isinstance(steps, bool):
        raise UsageError("How many steps to record is a whole number.")
    given = request_traces(run, here, steps=steps)
    answers = given.follow(until_met=False, patience_s=PATIENCE_S, tell=lambda _: None)
    return document(given, answers)
