"""Ask one profiler service for a trace. Knows gRPC, and nothing of runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from tfprobe.attach.service import exchange
from tfprobe.attach.service.addresses import Address
from tfprobe.attach.service.exchange import Exchange
from tfprobe.attach.service.refusals import explained, kept_to_itself
from tfprobe.errors import NoAnswer, TfprobeError
from tfprobe.formats.schema import message_class

_METHOD = "/tensorflow.ProfilerService/Profile"
_PACKAGE = "tfprobe.profiler_service"
# The tool that TensorFlow 2.3 sends the trace as; later ones take no notice.
_XSPACE_TOOL = "xplane.pb"
# What TensorFlow's own client asks for; since 2.4 no service looks at it.
_MOST_EVENTS = 1_000_000
# After the recording the service gathers and writes it: a trace of 100 MB takes it some 10 s.
ANSWER_S = 120.0
# Where a port accepts and then says nothing, gRPC would wait for 20 s.
_CONNECT_MS = 10_000


@dataclass(frozen=True, slots=True)
class Order:
    """What to record: for how long, and where the trace may be left."""

    session: str
    duration_s: float
    exchange: Exchange


class Service:
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
        self._channel.close()

    def begin(self, order: Order) -> Callable[[], bytes | None]:
        """Start a recording; return what waits for its end and gives the XSpace, None if empty.

        That raises UnreadableInput where there is no such service, or it went away, NoAnswer where
        it refuses, or where its trace does not come here.
        """
        folder = order.exchange.session(order.session)
        ask = self._channel.unary_unary(
            _METHOD,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message_class(f"{_PACKAGE}.ProfileResponse").FromString,
        )
        pending = ask.future(
            _request(self.address, order), timeout=order.duration_s + self._answer_s
        )
        return lambda: self._answer(pending, order, folder)

    def _answer(self, pending: Any, order: Order, folder: Path) -> bytes | None:
        try:
            response = pending.result()
        except grpc.RpcError as exc:
            raise self._why(exc, order) from exc
        content = _sent(response)
        if content is None and not response.empty_trace:
            content = exchange.taken(folder)
            if content is None:
                raise kept_to_itself(self.address, order.exchange)
        return None if response.empty_trace else content

    def _why(self, exc: Any, order: Order) -> TfprobeError:
        """Return the error for a person. Any: gRPC's is a call, too, which no type says."""
        if exc.code() is grpc.StatusCode.CANCELLED:
            return NoAnswer(f"The recording of {self.address} was cancelled.")
        waited_s = order.duration_s + self._answer_s
        return explained(self.address, exc.code().name, exc.details() or "", order, waited_s)


def _request(address: Address, order: Order) -> Any:
    """Return the message: the same options as those of the agent's windows.

    Any: the class is made at run time.
    """
    duration_ms = max(round(order.duration_s * 1000), 1)
    message = message_class(f"{_PACKAGE}.ProfileRequest")(
        duration_ms=duration_ms,
        max_events=_MOST_EVENTS,
        tools=[_XSPACE_TOOL],
        repository_root=order.exchange.there,
        session_id=order.session,
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
