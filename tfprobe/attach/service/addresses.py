"""Read where profiler services are: HOST:PORT, several of them with commas between."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tfprobe.errors import UsageError

# An IPv6 address stands in brackets, as in a URL.
_ADDRESS = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s:/\[\],]+)):(?P<port>\d{1,5})"
)
_LARGEST_PORT = 65_535
_HOW = "Write HOST:PORT, as in localhost:6009, and a comma between several."


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

    Raises UsageError for what is no address, and for one that stands there twice.
    """
    found = tuple(_address(part.strip()) for part in text.split(","))
    for address in found:
        if found.count(address) > 1:
            raise UsageError(f"{address} is named twice.", hint="Name each service once.")
    return found


def _address(text: str) -> Address:
    text = text.removeprefix("grpc://")
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is no address of a profiler service.", hint=_HOW)
    port = int(match["port"])
    if not 0 < port <= _LARGEST_PORT:
        raise UsageError(f"{text!r}: ports are from 1 to {_LARGEST_PORT}.", hint=_HOW)
    return Address(match["v6"] or match["host"], port)
