"""Answer HTTP with metrics. Knows no runs; a client can ask for nothing but what stands here.

Written on http.server: the server of prometheus-client answers every path with metrics, waits
forever for a client that does not read, and starts as many threads as there are clients.
"""

from __future__ import annotations

import errno
import gzip
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import Metric, ProcessCollector
from prometheus_client.exposition import choose_encoder, gzip_accepted
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

import tfprobe
from tfprobe.errors import TfprobeError, UsageError
from tfprobe.live.metrics.exporter import MetricsAnswer
from tfprobe.live.metrics.family import BOUNDS_S, Exposed, Family, FamilyKind, Histogram, Series

# A server scrapes every few seconds over one connection at a time; more than this is a mistake.
MOST_CLIENTS = 16
# For a client to send its request, and again for each piece of the answer.
CLIENT_TIMEOUT_S = 10.0
# Fast, and already a tenth: labels repeat.
_GZIP_LEVEL = 1
# How long an endpoint goes on at most after it is stopped; ten polls a second cost nothing.
_NOTICES_STOP_S = 0.1
_METHODS = ("GET", "HEAD")
_PLAIN = "text/plain; charset=utf-8"
_HTML = "text/html; charset=utf-8"
_INDEX = b"""<!DOCTYPE html>
<title>tfprobe metrics</title>
<p>Metrics of the runs that tfprobe records here: <a href="/metrics">/metrics</a></p>
"""


@dataclass(frozen=True, slots=True)
class _Page:
    """The answer to a client."""

    status: HTTPStatus
    content_type: str
    content: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Endpoint:
    """A listening server; one thread accepts, and each client has one of its own."""

    def __init__(
        self,
        host: str,
        port: int,
        answer: Callable[[], MetricsAnswer],
        *,
        complain: Callable[[str], None],
    ) -> None:
        """Bind the address; port 0 chooses a free one. `complain` is told of failures of ours.

        Raises UsageError where that cannot be done.
        """
        self._server = _bound(host, port, answer)
        self._server.complain = complain
        self._host = host
        self._thread = threading.Thread(target=self._serve, name="endpoint", daemon=True)

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._server.server_address[1]}/metrics"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Accept no more clients, and close. Clients being answered are dropped at exit."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _serve(self) -> None:
        self._server.serve_forever(_NOTICES_STOP_S)


def _bound(host: str, port: int, answer: Callable[[], MetricsAnswer]) -> _Server:
    if not host:
        # For a socket that is every address of the machine; most likely a variable was unset.
        raise UsageError("--host is empty.", hint="Name an address, or leave the option out.")
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return _Server(address, family, answer)
    except OSError as exc:
        raise UsageError(
            f"Metrics cannot be served at {host}:{port}: {exc.strerror or exc}.",
            hint=_HINTS.get(exc.errno or 0, "Name an address of this machine with --host."),
        ) from exc


_HINTS = {
    errno.EADDRINUSE: "Another program, maybe another `tfprobe metrics`, has that port: choose one "
    "with --port, or let a free one be chosen with --port 0.",
    errno.EACCES: "Choose a port above 1023 with --port.",
}


class _Server(ThreadingHTTPServer):
    """Serves at most MOST_CLIENTS at a time."""

    daemon_threads = True
    # Two endpoints on one port would answer by turns.
    allow_reuse_port = False

    def __init__(self, address: Any, family: int, answer: Callable[[], MetricsAnswer]) -> None:
        # Any: what an address is depends on its family.
        self.address_family = socket.AddressFamily(family)
        self.answer = answer
        self.complain: Callable[[str], None] = lambda _text: None
        self._places = threading.BoundedSemaphore(MOST_CLIENTS)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind without asking a name server what this machine is called, as http.server does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "localhost", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a client a thread, or close where there is no place. Any: socketserver's types."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a client, and free its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Say nothing of clients that go away or are too slow."""
        problem = sys.exc_info()[1]
        if not isinstance(problem, OSError):
            self.complain(f"A request failed: {type(problem).__name__}: {problem}")


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: _Server
    timeout = CLIENT_TIMEOUT_S
    server_version = f"tfprobe/{tfprobe.__version__}"
    sys_version = ""

    def parse_request(self) -> bool:
        """Refuse every method but the two that change nothing."""
        if not super().parse_request():
            return False
        if self.command in _METHODS:
            return True
        allowed = ", ".join(_METHODS)
        page = _text_page(HTTPStatus.METHOD_NOT_ALLOWED, f"Use {allowed}.", (("Allow", allowed),))
        self._send(page)
        return False

    def do_GET(self) -> None:
        """Answer by the path."""
        self._send(self._page(self.path.partition("?")[0]))

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    def log_message(self, format: str, *args: object) -> None:
        """Write no line for each scrape."""

    def _page(self, path: str) -> _Page:
        if path == "/metrics":
            return self._metrics()
        if path == "/":
            return _Page(HTTPStatus.OK, _HTML, _INDEX)
        if path == "/-/healthy":
            return _text_page(HTTPStatus.OK, "tfprobe metrics is healthy.")
        return _text_page(HTTPStatus.NOT_FOUND, "There is nothing here but /metrics.")

    def _metrics(self) -> _Page:
        try:
            families = self.server.answer().families
        except TfprobeError as problem:
            return _text_page(HTTPStatus.SERVICE_UNAVAILABLE, str(problem))
        accept = ",".join(self.headers.get_all("Accept", ()))
        content, content_type = text(families, accept, with_exporter=True)
        if gzip_accepted(self.headers.get("Accept-Encoding", "")):
            packed = gzip.compress(content, _GZIP_LEVEL)
            return _Page(HTTPStatus.OK, content_type, packed, (("Content-Encoding", "gzip"),))
        return _Page(HTTPStatus.OK, content_type, content)

    def _send(self, page: _Page) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.content)))
        for name, value in page.headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.content)


def _text_page(status: HTTPStatus, words: str, headers: Iterable[tuple[str, str]] = ()) -> _Page:
    return _Page(status, _PLAIN, f"{words}\n".encode(), tuple(headers))


_SUFFIXES = {FamilyKind.COUNTER: "_total", FamilyKind.INFO: "_info"}
_BOUNDS = (*map(floatToGoString, BOUNDS_S), "+Inf")


@dataclass(frozen=True)
class Families(Collector):
    """What a registry of prometheus-client collects: the families of one answer."""

    exposed: Iterable[Exposed]

    def collect(self) -> Iterator[Metric]:
        """Give each family with its samples."""
        return map(_metric, self.exposed)


def registry(families: Iterable[Exposed], *, with_exporter: bool) -> CollectorRegistry:
    """Return a registry of one answer; `with_exporter` adds CPU and memory of this process."""
    found = CollectorRegistry()
    found.register(Families(tuple(families)))
    if with_exporter:
        ProcessCollector(registry=found)
    return found


def text(
    families: Iterable[Exposed], accept: str = "", *, with_exporter: bool = False
) -> tuple[bytes, str]:
    """Return an answer in the format that a client accepts, and the content type of it."""
    try:
        encode, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is no number
        encode, content_type = choose_encoder("")
    return encode(registry(families, with_exporter=with_exporter)), content_type


def _metric(exposed: Exposed) -> Metric:
    family = exposed.family
    name = family.name.removesuffix(_SUFFIXES.get(family.kind, ""))
    metric = Metric(name, family.help, family.kind.value, family.unit)
    metric.samples = [sample for series in exposed.series for sample in _samples(family, series)]
    return metric


def _samples(family: Family, series: Series) -> Iterator[Sample]:
    labels = dict(zip(family.labels, series.labels, strict=True))
    value = series.value
    if not isinstance(value, Histogram):
        yield Sample(family.name, labels, value)
        return
    for bound, count in zip(_BOUNDS, value.cumulative, strict=True):
        yield Sample(f"{family.name}_bucket", {**labels, "le": bound}, count)
    yield Sample(f"{family.name}_count", labels, value.count)
    yield Sample(f"{family.name}_sum", labels, value.sum_s)
