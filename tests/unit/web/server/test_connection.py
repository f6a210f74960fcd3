"""What reaches the port and is no request: see web.server.connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import uvicorn
from uvicorn.server import ServerState

from tfprobe.web.server.app import application
from tfprobe.web.server.hosts import POLICY
from tfprobe.web.server.serving import Connection

ASKED = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Streams]]


class Quick(Connection):
    """Has no patience, and takes three."""

    most = 3
    patience_s = 0.05


@pytest.fixture
def serve(tmp_path) -> Iterator[Callable[..., None]]:
    """Run what asks a server of an empty directory."""

    def run(ask: Callable[[Connect], Awaitable[None]], kind: type[Connection]) -> None:
        asyncio.run(_asked(tmp_path, ask, kind))

    return run


async def _asked(
    place: Path, ask: Callable[[Connect], Awaitable[None]], kind: type[Connection]
) -> None:
    config = uvicorn.Config(application(place), lifespan="off", log_config=None, ws="none")
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: kind(config, state, {}), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        await asyncio.wait_for(ask(lambda: asyncio.open_connection("127.0.0.1", port)), 60)


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET / HTTP/1.1\r\nHo", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab"],
)
def test_a_request_that_does_not_come_is_not_waited_for(serve, begun):
    """Who holds many connections keeps others out, and needs no token for that."""

    async def ask(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(begun)
        while await _read(reader):
            pass
        writer.close()

    serve(ask, Quick)


def test_where_too_many_come_who_was_silent_longest_goes(serve):
    """The one that comes now is who has something to ask."""

    async def ask(connect: Connect) -> None:
        silent = [await connect() for _ in range(20)]
        reader, writer = await connect()
        writer.write(ASKED)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert await _read(silent[0][0]) == b""
        for _, each in (*silent, (reader, writer)):
            each.close()

    serve(ask, Quick)


def test_a_connection_is_used_again(serve):
    """Patience is for requests that are under way, each anew."""

    async def ask(connect: Connect) -> None:
        reader, writer = await connect()
        for part in (ASKED, ASKED[:9], ASKED[9:]):
            writer.write(part)
            if part != ASKED[:9]:
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
        writer.close()

    serve(ask, Connection)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100_000,
    ],
)
def test_what_is_no_request_is_told_so_as_anything_else(serve, nonsense):
    """With the headers that all answers have."""

    async def ask(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(nonsense)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 Bad Request")
        assert f"Content-Security-Policy: {POLICY}".encode() in head
        assert (await reader.readline()).endswith(b"ours.\n")
        writer.close()

    serve(ask, Connection)


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(1000)
    except ConnectionError:
        return b""
