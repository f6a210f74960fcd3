"""A profiler service of our own: it answers as TensorFlow's do, or badly."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from tests.support.captures import TraceEvent, xspace
from tests.support.rundir import UNIX_NS
from tfprobe.formats.schema import message_class

HOST = "/host:CPU"
_PACKAGE = "tfprobe.profiler_service"
# Any: a message made at run time, and gRPC's context.
Answer = Callable[[Any, Any], bytes]


@dataclass
class Serving:
    """A service under way, and the orders that it took."""

    server: grpc.Server
    port: int
    orders: list[Any] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"localhost:{self.port}"

    def die(self) -> None:
        """End it with whatever it is doing."""
        self.server.stop(None)


@contextmanager
def serving(answer: Answer | bytes, *, method: str = "Profile") -> Iterator[Serving]:
    """Serve on a free port. `answer` is a response, or gives it for a request and its context."""
    server = grpc.server(futures.ThreadPoolExecutor(4))
    found = Serving(server, server.add_insecure_port("localhost:0"))

    def take(request: Any, context: Any) -> bytes:
        found.orders.append(request)
        return answer if isinstance(answer, bytes) else answer(request, context)

    handler = grpc.unary_unary_rpc_method_handler(
        take,
        request_deserializer=message_class(f"{_PACKAGE}.ProfileRequest").FromString,
        response_serializer=bytes,
    )
    handlers = grpc.method_handlers_generic_handler("tensorflow.ProfilerService", {method: handler})
    server.add_generic_rpc_handlers((handlers,))
    server.start()
    try:
        yield found
    finally:
        server.stop(None).wait()


def trace(steps: int, *, first: int = 0, step_us: int = 1000, idle_us: int = 100) -> bytes:
    """Return the XSpace of a program that marked so many steps, each with two ops."""
    events = []
    for number in range(steps):
        start_us = number * (step_us + idle_us)
        events += [
            TraceEvent("train", start_us, step_us, {"step_num": first + number, "_r": 1}),
            TraceEvent("dense/MatMul:MatMul", start_us + step_us // 4, step_us // 2),
            TraceEvent("dense/Relu:Relu", start_us + step_us * 3 // 4, step_us // 8),
        ]
    return xspace({HOST: {"python": events}}, start_ns=UNIX_NS)


def unmarked() -> bytes:
    """Return the XSpace of a program that ran an op, and told of no step."""
    return xspace({HOST: {"python": [TraceEvent("a:Relu", 10, 5)]}}, start_ns=UNIX_NS)


def sent(content: bytes) -> bytes:
    """Return the response of late versions, which has the XSpace in it."""
    return _response(xspace=content)


def sent_as_tool(content: bytes) -> bytes:
    """Return the response of TensorFlow 2.3."""
    message = message_class(f"{_PACKAGE}.ProfileResponse")()
    message.tool_data.add(name="xplane.pb", data=content)
    return bytes(message.SerializeToString())


def empty() -> bytes:
    """Return the response of a service in whose process nothing ran."""
    return _response(empty_trace=True)


def left(request: Any, content: bytes, *, there: str = "", here: str = "") -> bytes:
    """Leave the XSpace where TensorFlow 2.4 to 2.20 do, and return their response.

    What is `there` in the names that the service was given is `here` on this machine.
    """
    root = request.repository_root.replace(there, here, 1) if there else request.repository_root
    folder = Path(root, request.session_id)
    os.makedirs(folder, exist_ok=True)
    name = request.host_name.replace(":", "_")
    folder.joinpath(f"{name}.xplane.pb").write_bytes(content)
    return _response()


def _response(**fields: Any) -> bytes:
    return bytes(message_class(f"{_PACKAGE}.ProfileResponse")(**fields).SerializeToString())
