"""The page of a followed report shows the latest one, its age, and may be scrolled."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widgets import Static

from tests.support.profiles import profile, timed_loop
from tfprobe.errors import Missing, UnreadableInput
from tfprobe.findings.engine import advise
from tfprobe.report.documents.run_report import gather_report
from tfprobe.report.format.followed import INTERRUPTED, FollowedReport, ShownReport

PATIENCE_S = 30.0


class Answers:
    """A source that answers what a test puts in."""

    def __init__(self) -> None:
        self.waiting: queue.Queue[tuple[ShownReport | Missing | Exception, bool]] = queue.Queue()
        self.has_ended = False

    def next(self, watch: Callable[[int, int], None]) -> ShownReport | Missing:
        answer, self.has_ended = self.waiting.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def pause_s(self) -> float:
        return 0.0

    def put(self, answer: ShownReport | Missing | Exception, *, has_ended: bool = False) -> None:
        self.waiting.put((answer, has_ended))


def shown(command: str, *, loops: int = 1, state: str = "running") -> ShownReport:
    base = profile()
    run = replace(base.run, command=(command,), state=state)
    made = replace(
        base,
        run=run,
        loops=tuple(replace(timed_loop([5, 6, 7]), index=at) for at in range(loops)),
    )
    return ShownReport(gather_report(made), advise(made, ()), 0)


def text(page: FollowedReport) -> str:
    return str(page.query_one("#report", Static).render())


async def until(pilot: Pilot[None], is_so: Callable[[], bool]) -> None:
    """Wait for the page's thread and its messages."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await pilot.pause(0.01)


def with_page(
    act: Callable[[FollowedReport, Answers, Pilot[None]], Awaitable[None]],
    clock: Callable[[], float] = lambda: 100.0,
) -> FollowedReport:
    """Run a page of 80 columns by 20 lines; return it when it is over."""
    source = Answers()
    page = FollowedReport(source, clock=clock)

    async def run() -> None:
        async with page.run_test(size=(80, 20)) as pilot:
            await act(page, source, pilot)

    try:
        asyncio.run(run())
    finally:
        source.put(Missing("the test is over"), has_ended=True)
    return page


def test_the_latest_report_takes_the_place_of_the_one_before():
    """In place: nothing is left of the old one."""

    async def act(page, source, pilot):
        source.put(shown("first"))
        await until(pilot, lambda: "first" in text(page))
        source.put(shown("second"))
        await until(pilot, lambda: "second" in text(page))
        assert "first" not in text(page)

    with_page(act)


def test_before_the_first_report_it_says_what_it_does():
    """A large run is read for a while."""

    async def act(page, source, pilot):
        assert page.standing() == "reading the run · q quits"
        page._say("reading capture 3 of 9")
        assert page.standing() == "reading capture 3 of 9 · q quits"

    with_page(act)


def test_the_age_of_what_is_shown_is_told():
    """By when the files were looked at, and for how long nothing has been new."""
    now_s = [100.0]

    async def act(page, source, pilot):
        source.put(shown("job"))
        await until(pilot, lambda: page.shown is not None)
        now_s[0] = 150.0
        source.put(Missing("nothing is new"))
        source.put(Missing("nothing is new"))
        await until(pilot, lambda: page._looked_s == 150.0)
        now_s[0] = 151.0
        await until(pilot, lambda: source.waiting.empty())
        page._began_s = None
        assert "running · as of 1 s ago · nothing new for 51 s · " in page.standing()

    with_page(act, lambda: now_s[0])


def test_a_long_report_can_be_scrolled_while_it_changes():
    """The lines that are read stay where they are."""

    async def act(page, source, pilot):
        source.put(shown("job", loops=12))
        await until(pilot, lambda: page.shown is not None)
        scroll = page.query_one(VerticalScroll)
        await until(pilot, lambda: scroll.max_scroll_y > 5)
        await pilot.press("j", "j", "j")
        await until(pilot, lambda: scroll.scroll_y == 3)
        latest = shown("later", loops=12)
        source.put(latest)
        await until(pilot, lambda: page.shown is latest)
        await pilot.pause()
        assert scroll.scroll_y == 3

    with_page(act)


def test_a_page_of_another_width_is_laid_out_anew():
    """As wide as the window is now."""

    async def act(page, source, pilot):
        source.put(shown("x" * 70))
        await until(pilot, lambda: "x" * 70 in text(page))
        await pilot.resize_terminal(62, 20)
        await until(pilot, lambda: "x" * 70 not in text(page))

    with_page(act)


def test_it_ends_with_the_run():
    """And keeps the last report for whoever prints it."""

    async def act(page, source, pilot):
        source.put(shown("job", state="finished"), has_ended=True)
        await until(pilot, lambda: page._exit)

    page = with_page(act)

    assert page.shown is not None
    assert page.shown.report.run.state == "finished"
    assert page.return_code == 0


@pytest.mark.parametrize(("key", "status"), [("q", 0), ("escape", 0), ("ctrl+c", INTERRUPTED)])
def test_a_person_may_leave_before(key, status):
    """q is a normal end; Ctrl-C is told as everywhere."""

    async def act(page, source, pilot):
        await pilot.press(key)
        await until(pilot, lambda: page._exit)

    assert with_page(act).return_code == status


def test_what_goes_wrong_is_left_for_the_command_to_tell():
    """The page goes, and with it the error would."""
    trouble = UnreadableInput("Run r no longer exists.")

    async def act(page, source, pilot):
        source.put(trouble)
        await until(pilot, lambda: page._exit)

    assert with_page(act).trouble is trouble
