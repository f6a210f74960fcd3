"""Ask a profiler service for a trace: where it is, what it says, and why it gave none."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from tfprobe.attach.service import exchange
from tfprobe.attach.service.exchange import ExchangeFolder
from tfprobe.errors import NoAnswer, TfprobeError, UnreadableInput, UsageError
from tfprobe.formats.schema import message_class

_METHOD = "/tensorflow.ProfilerService/Profile"
_PACKAGE = "tfprobe.profiler_service"
# The tool that TensorFlow 2.3 sends the trace as; later ones take no notice.
_XSPACE_TOOL = "xplane.pb"
# As TensorFlow's own client requests; since 2.4 services ignore it.
_MOST_EVENTS = 1_000_000
# After the recording the service gathers and writes it: a trace of 100 MB takes it some 10 s.
ANSWER_S = 120.0
# Where a port accepts and then says nothing, gRPC would wait for 20 s.
_CONNECT_MS = 10_000


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """What to record: for how long, and where the trace may be left."""

    session: str
    duration_s: float
    exchange: ExchangeFolder


class ServiceClient:
    """A channel to one profiler service."""

    def __init__(self, address: Address, *, answer_s: float = ANSWER_S) -> None:
        """Open no connection yet: the first recording does."""
        self.address = address
        self._answer_s = answer_s
        options = [
            # A trace is larger than the 4 MB that gRPC takes by itself.
            ("grpc.max_receive_message_length", -1),
            # Jobs are reached directly, as TensorFlow's own client reaches them.
            ("grpc.enable_http_proxy", 0),
            ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),
        ]
        self._channel = grpc.insecure_channel(str(address), options=options)

    def close(self) -> None:
        """Give up the connection; a recording under way is cancelled there, too."""
        with _deferring_signals():
            self._channel.close()

    def begin(self, request: ProfileRequest) -> Callable[[], bytes | None]:
        """Start a recording; return what waits for its end and gives the XSpace, None if empty.

        That raises UnreadableInput where there is no such service, or it went away, NoAnswer where
        it refuses, or where its trace does not come here.
        """
        folder = request.exchange.session(request.session)
        ask = self._channel.unary_unary(
            _METHOD,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message_class(f"{_PACKAGE}.ProfileResponse").FromString,
        )
        message = _request(self.address, request)
        with _deferring_signals():
            pending = ask.future(message, timeout=request.duration_s + self._answer_s)
        return lambda: self._answer(pending, request, folder)

    def _answer(self, pending: Any, request: ProfileRequest, folder: Path) -> bytes | None:
        try:
            response = pending.result()
        except grpc.RpcError as exc:
            raise self._why(exc, request) from exc
        content = _sent(response)
        if content is None and not response.empty_trace:
            content = exchange.taken(folder)
            if content is None:
                raise kept_to_itself(self.address, request.exchange)
        return None if response.empty_trace else content

    def _why(self, exc: Any, request: ProfileRequest) -> TfprobeError:
        """Return the error for a person. Any: gRPC's is a call, too, which no type says."""
        if exc.code() is grpc.StatusCode.CANCELLED:
            return NoAnswer(f"The recording of {self.address} was cancelled.")
        waited_s = request.duration_s + self._answer_s
        return explained(self.address, exc.code().name, exc.details() or "", request, waited_s)


@contextmanager
def _deferring_signals() -> Iterator[None]:
    """Let signals that end the command wait: their handlers raise.

    Within gRPC's own bookkeeping, that leaves a call that is counted and never runs, and closing
    the channel would wait for it for ever.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _frame: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) is not None
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for deferred in came:
            signal.raise_signal(deferred)


def _request(address: Address, request: ProfileRequest) -> Any:
    """Return the message: the same options as those of the agent's windows.

    Any: the class is made at run time.
    """
    duration_ms = max(round(request.duration_s * 1000), 1)
    message = message_class(f"{_PACKAGE}.ProfileRequest")(
        duration_ms=duration_ms,
        max_events=_MOST_EVENTS,
        tools=[_XSPACE_TOOL],
        repository_root=request.exchange.there,
        session_id=request.session,
        host_name=address.host.replace("/", "_"),
        emit_xspace=True,
    )
    options = message.opts
    # Without a version none of the others is looked at.
    options.version = 1
    options.host_tracer_level = 2
    options.device_tracer_level = 1
    options.enable_hlo_proto = True
    options.duration_ms = duration_ms
    return message


def _sent(response: Any) -> bytes | None:
    """Return the XSpace that came in an answer: a field of late versions, a tool of TF 2.3."""
    if response.xspace:
        return bytes(response.xspace)
    found = (tool.data for tool in response.tool_data if tool.name == _XSPACE_TOOL)
    return next((bytes(data) for data in found if data), None)


# An IPv6 address is in brackets, as in a URL.
_ADDRESS = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s:/\[\],]+)):(?P<port>\d{1,5})"
)
_LARGEST_PORT = 65_535
_HOW = "Use HOST:PORT, as in localhost:6009, with commas between several."


@dataclass(frozen=True, slots=True)
class Address:
    """Where one profiler service listens."""

    host: str
    port: int

    def __str__(self) -> str:
        """Write it as gRPC and people do."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def addresses(text: str) -> tuple[Address, ...]:
    """Return the addresses of a list, in its order.

    Raises UsageError for what is not an address, and for one that is listed twice.
    """
    found = tuple(_address(part.strip()) for part in text.split(","))
    for address in found:
        if found.count(address) > 1:
            raise UsageError(f"{address} is listed twice.", hint="List each service once.")
    return found


def _address(text: str) -> Address:
    text = text.removeprefix("grpc://")
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not the address of a profiler service.", hint=_HOW)
    port = int(match["port"])
    if not 0 < port <= _LARGEST_PORT:
        raise UsageError(
            f"The port of {text!r} is out of range: it must be 1 to {_LARGEST_PORT}.", hint=_HOW
        )
    return Address(match["v6"] or match["host"], port)


_START = (
    "A job starts its service with tf.profiler.experimental.server.start(PORT); TensorFlow Serving "
    "has one on its gRPC port."
)
_SHARE = (
    "About TensorFlow 2.4 to 2.20 leave traces in files on the machine or in the container of the "
    "job. Name a directory that both can write to: `--server-directory PATH`, or "
    "`--server-directory REMOTE=LOCAL` if it has another path here."
)
# What gRPC says of a connection that did not come about, and what it means; the first that fits.
_CONNECTIONS: tuple[tuple[str, str], ...] = (
    (r"resolv|lookup|name not found", "its host has no address"),
    (r"timed out before receiving SETTINGS", "it accepts connections and does not answer"),
    (r"SETTINGS|HTTP/2|HTTP2", "what listens there does not speak gRPC"),
    (r"refused", "nothing listens there"),
    (r"unreachable|No route", "there is no route to its host"),
    (r"timed out|timeout", "its host does not answer"),
)
_NOT_CONNECTED = re.compile(r"failed to connect|resolv", re.IGNORECASE)
_BUSY = re.compile(r"another profil|already|ALREADY_EXISTS|profiler session", re.IGNORECASE)
_FILES = re.compile(
    r"no such file|permission denied|read-only|not a directory|disk quota|no space", re.IGNORECASE
)


def explained(
    address: Address, code: str, details: str, request: ProfileRequest, waited_s: float
) -> TfprobeError:
    """Return the error for a call that failed with this gRPC status."""
    if code == "UNAVAILABLE":
        return _not_there(address, details)
    if code == "UNIMPLEMENTED":
        said = f"{address} speaks gRPC, but has no profiler service."
        return UnreadableInput(said, hint=_START)
    if code == "DEADLINE_EXCEEDED":
        said = f"{address} accepted the request and did not answer within {waited_s:.0f} s."
        return UnreadableInput(said, hint="It may be stopped, or its trace too large.")
    if _BUSY.search(details) or code == "ALREADY_EXISTS":
        return _busy(address, details)
    if _FILES.search(details):
        return _no_room(address, request.exchange, details)
    said = f"The profiler service {address} could not record: {details or code}."
    return NoAnswer(said, hint="Its log may say more.")


def kept_to_itself(address: Address, folder: ExchangeFolder) -> NoAnswer:
    """Return the error for a trace that was made and is not here."""
    return NoAnswer(
        f"{address} recorded, but its trace did not arrive: it is in {folder.there} on another "
        "file system, or the job has TensorFlow 2.2, which returns no trace.",
        hint=_SHARE,
    )


def _not_there(address: Address, details: str) -> UnreadableInput:
    if not _NOT_CONNECTED.search(details):
        said = f"{address} went away while it recorded ({details})."
        return UnreadableInput(said, hint="The job ended or crashed; nothing was kept.")
    found = (says for sign, says in _CONNECTIONS if re.search(sign, details, re.IGNORECASE))
    why = next(found, None) or details
    return UnreadableInput(f"{address} cannot be reached: {why}.", hint=_START)


def _busy(address: Address, details: str) -> NoAnswer:
    return NoAnswer(
        f"Another profiler is active in the job of {address}, and TensorFlow allows one at a time "
        f"({details.rstrip('.')}).",
        hint="Try again when that has ended: a TensorBoard callback, "
        "tf.profiler.experimental.start, another capture, or a step that `tfprobe run` traces.",
    )


def _no_room(address: Address, folder: ExchangeFolder, details: str) -> NoAnswer:
    said = f"{address} cannot write its trace to {folder.there} ({details.rstrip('.')})."
    return NoAnswer(said, hint=_SHARE)
