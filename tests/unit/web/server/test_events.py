"""What is new comes to pages by itself; nobody looks where nobody listens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from tests.support import looks
from tfprobe.errors import UnreadableInput
from tfprobe.profile.snapshots import FleetSnapshot
from tfprobe.web.server.events import Events, Stream

PATIENCE_S = 60


class Runs:
    """Runs that are looked at."""

    def __init__(self) -> None:
        self.now: FleetSnapshot | Exception = looks.fleet(looks.run(id="r1"))
        self.looked = 0

    def look(self) -> FleetSnapshot:
        self.looked += 1
        if isinstance(self.now, Exception):
            raise self.now
        return self.now


@pytest.fixture
def runs() -> Runs:
    return Runs()


@asynccontextmanager
async def listening(events: Events):
    """Give a function that returns the next event as (name, data); None for a comment."""
    async with aclosing(events.stream()) as stream:

        async def hear() -> tuple[str, Any] | None:
            text = (await asyncio.wait_for(anext(stream), PATIENCE_S)).decode()
            if text.startswith((":", "retry:")):
                return None
            name, data, *_ = text.split("\n")
            return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))

        assert await hear() is None  # how long to wait before coming again
        yield hear


def run(test: Callable[[], Any]) -> None:
    asyncio.run(test())


def test_a_page_hears_first_how_all_runs_stand(runs):
    """So it knows what it has missed."""

    async def test() -> None:
        async with listening(Events(runs.look, every_s=0)) as hear:
            (name, data) = await hear()

        assert name == "all"
        assert data == {"r1": {"state": "running", "steps": 100, "captures": 1, "processes": 1}}

    run(test)


def test_only_what_is_new_is_told(runs):
    """A run that stays as it is costs nothing."""

    async def test() -> None:
        async with listening(Events(runs.look, every_s=0)) as hear:
            await hear()
            loop = looks.steps(101)
            runs.now = looks.fleet(looks.run([looks.process([loop])], id="r2"), looks.run(id="r1"))
            news = await hear()

            runs.now = looks.fleet(looks.run(id="r1"))
            gone = await hear()

        assert news == (
            "news",
            {"r2": {"state": "running", "steps": 101, "captures": 1, "processes": 1}},
        )
        assert gone == ("news", {"r2": None})

    run(test)


def test_what_is_open_knows_of_news_before_any_page(runs):
    """A page that asks at once must not be given what was read before."""

    async def test() -> None:
        noted: list[list[str]] = []
        events = Events(runs.look, note=lambda names: noted.append(list(names)), every_s=0)
        async with listening(events) as hear:
            await hear()

        assert noted[0] == ["r1"]

    run(test)


def test_a_page_that_lags_behind_hears_the_newest(runs):
    """Nothing piles up for it."""

    async def test() -> None:
        events = Events(runs.look, every_s=0)
        async with listening(events) as slow, listening(events) as quick:
            await slow()
            await quick()
            for count in (101, 102, 103):
                runs.now = looks.fleet(looks.run([looks.process([looks.steps(count)])], id="r1"))
                await quick()

            (_, news) = await slow()

        assert news["r1"]["steps"] == 103

    run(test)


def test_while_nothing_is_new_it_says_that_it_is_there(runs):
    """A tunnel that is silent is closed, and a page knows by it that the server is there."""

    async def test() -> None:
        async with listening(Events(runs.look, every_s=0, heartbeat_s=0.01)) as hear:
            while await hear() is not None:
                pass

            assert await hear() is None

    run(test)


def test_nobody_looks_where_nobody_listens(runs):
    """Neither before the first page nor after the last."""

    async def test() -> None:
        events = Events(runs.look, every_s=0)
        assert not events.is_looking
        async with listening(events) as one, listening(events) as other:
            await one()
            await other()
            assert events.is_looking
        assert (events.is_looking, events.listeners) == (False, 0)

    run(test)


def test_one_look_is_for_all_who_listen(runs):
    """However many."""

    async def test() -> None:
        events = Events(runs.look, every_s=3600)
        async with listening(events) as one:
            await one()
            async with listening(events) as other, listening(events) as third:
                assert await other() == await third()

        assert runs.looked == 1

    run(test)


def test_a_directory_that_cannot_be_looked_at_ends_nothing(runs):
    """It may be back at the next look."""

    async def test() -> None:
        events = Events(runs.look, every_s=0)
        async with listening(events) as hear:
            await hear()
            runs.now, before = UnreadableInput("closed"), runs.looked
            while runs.looked < before + 3:
                await asyncio.sleep(0)
            runs.now = looks.fleet()

            assert (await hear())[0] == "news"

    run(test)


def test_a_stream_ends_with_the_server(runs):
    """Nobody waits for a page to go away."""

    async def test() -> None:
        events = Events(runs.look, every_s=3600)
        sent: list[Any] = []
        first = asyncio.Event()

        async def send(message: Any) -> None:
            sent.append(message)
            if b"event:" in message.get("body", b""):
                first.set()

        async def receive() -> Any:
            await asyncio.Event().wait()

        answering = asyncio.ensure_future(Stream(events)({}, receive, send))
        await asyncio.wait_for(first.wait(), PATIENCE_S)
        events.end()
        await asyncio.wait_for(answering, PATIENCE_S)

        assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
        assert events.listeners == 0

    run(test)


def test_a_stream_ends_when_the_page_has_gone(runs):
    """And with it the looks."""

    async def test() -> None:
        events = Events(runs.look, every_s=3600)

        async def send(_: Any) -> None:
            pass

        async def receive() -> Any:
            return {"type": "http.disconnect"}

        await asyncio.wait_for(Stream(events)({}, receive, send), PATIENCE_S)

        assert (events.listeners, events.is_looking) == (0, False)

    run(test)
