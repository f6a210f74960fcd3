"""The live page under a person's keys, in a terminal without a screen (textual's pilot)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from tests.support.fleets import MS, MadeUp, S, finding, process_row, run_row, seen
from tfprobe.errors import Missing, NoAnswer
from tfprobe.live.top.app import TopPage
from tfprobe.live.top.dialogs import AskSteps, HelpScreen, ReportScreen
from tfprobe.live.top.listing import Headings, RunListing
from tfprobe.live.top.overview import Overview
from tfprobe.live.top.process import ProcessScreen
from tfprobe.live.top.source import Key

pytestmark = pytest.mark.slow
# Looks come when a test says so, never by the clock.
NEVER_S = 1e6
PATIENCE_S = 30

Play = Callable[["Stage"], Awaitable[None]]


class Stage:
    """A page under test: its source, its pilot, and what one sees."""

    def __init__(self, page: TopPage, pilot: Pilot[None], source: MadeUp) -> None:
        self.page, self.pilot, self.source = page, pilot, source

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until nothing is left to be done."""
        await self.pilot.press(*keys)
        await self.settle()

    async def settle(self) -> None:
        """Wait for the threads that read, and for the page to show what they found."""
        for _ in range(3):
            for thread in threading.enumerate():
                if thread.name == "tfprobe top reads":
                    thread.join(PATIENCE_S)
            await self.pilot.pause()

    async def look(self, now=None) -> None:
        """Let the page see something else."""
        if now is not None:
            self.source.now = now
        try:
            found = self.source.look()
        except NoAnswer as problem:
            found = problem
        self.page.take(found)
        await self.settle()

    @property
    def listing(self) -> RunListing:
        return self.page.screen.query_one(RunListing)

    @property
    def ids(self) -> list[str]:
        return [line.run.id for line in self.listing.lines]

    @property
    def chosen(self) -> Key | None:
        line = self.listing.chosen
        return None if line is None else line.key

    @property
    def screen(self) -> list[str]:
        """The lines that a person sees."""
        strips = self.page.screen._compositor.render_strips()
        return [strip.text for strip in strips]

    def sees(self, text: str) -> bool:
        return any(text in line for line in self.screen)

    def said(self) -> list[str]:
        """What was told in a corner."""
        return [each.message for each in self.page._notifications]


def play(what: Play, source: MadeUp | None = None, size: tuple[int, int] = (100, 30)) -> None:
    """Start a page of this size, let it look once, and act."""
    source = source or MadeUp()

    async def act() -> None:
        page = TopPage(source, every_s=NEVER_S)
        async with page.run_test(size=size) as pilot:
            stage = Stage(page, pilot, source)
            await pilot.pause()
            await stage.look()
            await what(stage)

    asyncio.run(asyncio.wait_for(act(), PATIENCE_S))


def runs(*names: str, **changes):
    return MadeUp(now=seen(*(run_row(name, process_row(**changes)) for name in names)))


def test_a_run_is_shown_with_its_numbers():
    """State, rate, step times, trend and the bar of a running job stand on one line."""

    async def act(stage: Stage) -> None:
        (line,) = [line for line in stage.screen if "● running" in line]
        for told in ("train.py --name r1", "28.3", "35.0 ms", "51.0 ms", "▄▅▅█▅", "░", "1.45"):
            assert told in line, line

    play(act)


def test_the_thread_that_looks_brings_the_first_look():
    """The page fills itself; nobody has to press a key."""

    async def act() -> None:
        page = TopPage(MadeUp(), every_s=0.2)
        async with page.run_test() as pilot:
            while page.seen is None:
                await pilot.pause(0.01)

    asyncio.run(asyncio.wait_for(act(), PATIENCE_S))


@pytest.mark.parametrize(
    ("keys", "at"),
    [
        (("down",), 1), (("j", "j"), 2), (("j", "k"), 0), (("end",), 39), (("G", "g"), 0),
        (("end", "home"), 0), (("up",), 0), (("end", "down"), 39), (("pagedown", "pageup"), 0),
    ],
)  # fmt: skip
def test_keys_choose_a_line(keys, at):
    """Arrows, j and k, pages, and both ends, where they stop."""
    names = [f"r{number:02}" for number in range(40)]

    async def act(stage: Stage) -> None:
        await stage.press(*keys)
        assert stage.chosen == Key(f"/runs/{names[at]}")

    play(act, runs(*names))


def test_the_chosen_line_is_always_in_sight():
    """At the end of a long list one sees the end of it."""
    names = [f"r{number:02}" for number in range(60)]

    async def act(stage: Stage) -> None:
        await stage.press("end")
        assert stage.sees("--name r59")
        assert not stage.sees("--name r00")

    play(act, runs(*names), size=(80, 24))


def test_a_look_leaves_the_page_where_the_wheel_turned_it():
    """Whoever reads further down is not taken back to the chosen line each second."""
    names = [f"r{number:02}" for number in range(60)]

    async def act(stage: Stage) -> None:
        stage.listing.scroll_to(y=30, animate=False)
        await stage.settle()
        await stage.look()
        assert stage.sees("--name r30")
        assert stage.chosen == Key("/runs/r00")

    play(act, runs(*names), size=(120, 24))


def test_when_many_runs_go_the_others_are_in_sight():
    """A page that was turned to the end of a long list shows the short one that is left."""
    names = [f"r{number:02}" for number in range(60)]

    async def act(stage: Stage) -> None:
        await stage.press("end")
        await stage.look(seen(run_row("r00"), run_row("r01")))
        assert stage.sees("--name r00")
        assert stage.chosen == Key("/runs/r01")

    play(act, runs(*names), size=(120, 24))


def test_the_choice_stays_on_its_run_when_lines_move():
    """A new run appears above; the chosen one is still the chosen one."""

    async def act(stage: Stage) -> None:
        await stage.press("down")
        await stage.look(seen(run_row("new"), run_row("a"), run_row("b")))
        assert stage.chosen == Key("/runs/b")
        assert stage.ids == ["new", "a", "b"]

    play(act, runs("a", "b"))


def test_only_what_changed_is_drawn_again():
    """A look that changes one number of one line has one stretch of it drawn."""

    async def act(stage: Stage) -> None:
        drawn = []
        stage.listing.refresh = lambda *regions, **_: drawn.extend(regions)
        now = seen(run_row("a"), run_row("b", process_row(steps_per_s=31.4)))
        await stage.look(now)
        assert [(region.y, region.width) for region in drawn] == [(1, 7)]

    play(act, runs("a", "b"))


def test_a_run_that_vanishes_goes_away_with_a_word():
    """Its line is gone, its neighbour is chosen, and a sentence says why."""

    async def act(stage: Stage) -> None:
        await stage.press("down")
        await stage.look(seen(run_row("a")))
        assert stage.chosen == Key("/runs/a")
        assert stage.said() == ["b is gone: its directory was removed."]

    play(act, runs("a", "b"))


@pytest.mark.parametrize("key", ["2", "t", "question_mark"])
def test_a_process_that_vanishes_while_it_is_open_closes_its_page(key):
    """Whatever was open of it is closed, and a sentence says why."""

    async def act(stage: Stage) -> None:
        await stage.press("enter", key)
        await stage.look(seen())
        assert isinstance(stage.page.screen, Overview)
        assert "This process is gone: its directory was removed." in stage.said()

    play(act)


def test_a_report_stays_when_its_run_vanishes():
    """What was read is kept, with a word."""

    async def act(stage: Stage) -> None:
        await stage.press("o")
        await stage.look(seen())
        assert stage.sees("Its directory was removed meanwhile.")
        assert stage.sees("python train.py")

    play(act)


def test_an_empty_directory_says_what_to_do():
    """Who starts the page before the first job is told how to start one."""

    async def act(stage: Stage) -> None:
        assert stage.sees("There is no run in /runs yet.")
        await stage.press("enter", "t", "o", "space", "down", "s")
        await stage.look(seen(run_row("first"), run_row("second")))
        await stage.press("end")
        assert stage.chosen == Key("/runs/second")

    play(act, MadeUp(now=seen()))


def test_a_directory_that_cannot_be_read_is_told():
    """The last look stays, with the reason why there is no newer one."""

    async def act(stage: Stage) -> None:
        await stage.look(NoAnswer("/runs is closed to this user."))
        assert stage.sees("cannot update: /runs is closed")
        assert stage.ids == ["r1"]
        await stage.look(seen(run_row("r1")))
        assert not stage.sees("no look")

    play(act)


def test_enter_opens_a_process():
    """Its works are there at once."""

    async def act(stage: Stage) -> None:
        await stage.press("enter")
        assert isinstance(stage.page.screen, ProcessScreen)
        assert stage.sees("digits_cnn")
        assert stage.sees("node7 pid 4711")
        await stage.press("escape")
        assert isinstance(stage.page.screen, Overview)

    play(act)


@pytest.mark.parametrize(
    ("key", "asked", "shown"),
    [
        ("2", "ops", "MatMul"),
        ("3", "findings", "Input limits the speed"),
        ("4", "notes", "step 10 of fit"),
    ],
)
def test_tabs_show_what_captures_say(key, asked, shown):
    """Ops, findings and the log are read when their tab is opened, and not before."""

    async def act(stage: Stage) -> None:
        await stage.press("enter")
        assert stage.source.asked == []
        await stage.press(key)
        assert stage.source.asked == [(asked, Key("/runs/r1", "node7", "4711-1"))]
        assert stage.sees(shown)

    play(act)


def test_arrows_go_from_tab_to_tab():
    """Right and left, round and round."""

    async def act(stage: Stage) -> None:
        await stage.press("enter", "right")
        assert stage.sees("MatMul")
        await stage.press("left", "left")
        assert stage.sees("step 10 of fit")

    play(act)


def test_a_new_capture_has_the_tab_read_again():
    """The op table of an open process follows the job."""

    async def act(stage: Stage) -> None:
        await stage.press("enter", "2")
        await stage.look()
        assert len(stage.source.asked) == 1
        await stage.look(seen(run_row("r1", process_row(captures=8))))
        assert len(stage.source.asked) == 2

    play(act)


@pytest.mark.parametrize(
    ("key", "changes", "told"),
    [
        ("2", {"table": Missing("no step was traced")}, "No ops to show: no step was traced."),
        ("2", {"table": NoAnswer("steps.bin is half a header.")}, "steps.bin is half a header."),
        ("3", {"found": ()}, "No optimization was found."),
        ("4", {"noted": ()}, "Nothing was recorded yet."),
    ],
)
def test_a_tab_without_an_answer_says_why(key, changes, told):
    """Missing and unreadable captures are told where they would stand."""

    async def act(stage: Stage) -> None:
        await stage.press("enter", key)
        assert stage.sees(told)

    play(act, MadeUp(**changes))


def test_reading_never_holds_up_a_key():
    """While captures are read, which takes long, other tabs open and the page can be left."""
    go_on = threading.Event()

    class Slow(MadeUp):
        def ops(self, key, watch):
            go_on.wait(PATIENCE_S)
            return super().ops(key, watch)

    async def act(stage: Stage) -> None:
        await stage.pilot.press("enter", "2")
        await stage.pilot.pause()
        assert stage.sees("reading ops")
        await stage.pilot.press("1")
        await stage.pilot.pause()
        assert stage.sees("digits_cnn")
        await stage.pilot.press("escape")
        await stage.pilot.pause()
        assert isinstance(stage.page.screen, Overview)
        go_on.set()
        await stage.settle()

    play(act, Slow())


def test_t_asks_for_samples_and_says_who_answered():
    """The number that was typed goes to the chosen process; its answer is shown."""

    async def act(stage: Stage) -> None:
        await stage.press("t")
        assert isinstance(stage.page.screen, AskSteps)
        assert stage.sees("Trace how many steps of train.py --name r1 now?")
        stage.page.screen.query_one(Input).value = ""
        await stage.press("1", "2", "enter")
        assert stage.source.asked == [("sample", Key("/runs/r1"), 12)]
        assert stage.said() == ["pid 4711 will record 5 steps."]

    play(act)


def test_a_number_that_is_none_asks_for_nothing():
    """0 steps are no order; escape leaves."""

    async def act(stage: Stage) -> None:
        await stage.press("t")
        stage.page.screen.query_one(Input).value = "0"
        await stage.press("enter")
        assert stage.sees("Enter a whole number of at least 1.")
        await stage.press("escape")
        assert stage.source.asked == []
        assert isinstance(stage.page.screen, Overview)

    play(act)


def test_an_order_that_is_refused_is_told():
    """Someone else's job cannot be asked; the reason stands in the corner."""
    refusal = NoAnswer("steps.bin cannot be written.", hint="Ask its owner.")

    async def act(stage: Stage) -> None:
        await stage.press("t", "enter")
        assert stage.said() == ["steps.bin cannot be written. Ask its owner."]

    play(act, MadeUp(answers=refusal))


def test_o_shows_the_report():
    """As `tfprobe report` prints it, in a page of its own."""

    async def act(stage: Stage) -> None:
        await stage.press("o")
        assert isinstance(stage.page.screen, ReportScreen)
        assert stage.sees("python train.py")
        await stage.press("j", "k", "space", "g", "G", "R", "escape")
        assert isinstance(stage.page.screen, Overview)

    play(act)


def test_s_orders_by_the_next_column_and_r_the_other_way_round():
    """The heading of the column shows which, and which way."""

    async def act(stage: Stage) -> None:
        assert stage.ids == ["slow", "fast"]
        await stage.press("s")
        assert stage.ids == ["fast", "slow"]
        assert stage.sees("▼")
        await stage.press("r")
        assert stage.ids == ["slow", "fast"]
        assert stage.sees("▲")
        await stage.press("S")
        assert not stage.sees("▲")

    rows = (process_row(steps_per_s=1.0), process_row(steps_per_s=9.0))
    now = seen(*(run_row(name, row) for name, row in zip(("slow", "fast"), rows, strict=True)))
    play(act, MadeUp(now=now))


def test_a_click_on_a_heading_orders_by_it():
    """And a second click turns the order round."""

    async def act(stage: Stage) -> None:
        (place,) = [each for each in stage.listing.fitted if each.column.name == "p50"]
        await stage.pilot.click(Headings, offset=(place.start + 4, 0))
        await stage.settle()
        assert stage.ids == ["b", "a"]
        await stage.pilot.click(Headings, offset=(place.start + 4, 0))
        await stage.settle()
        assert stage.ids == ["a", "b"]

    rows = (process_row(p50_ns=10 * MS), process_row(p50_ns=90 * MS))
    now = seen(*(run_row(name, row) for name, row in zip("ab", rows, strict=True)))
    play(act, MadeUp(now=now))


def test_a_click_chooses_a_line_and_two_open_it():
    """The mouse does what enter does."""

    async def act(stage: Stage) -> None:
        await stage.pilot.click(RunListing, offset=(5, 1))
        await stage.settle()
        assert stage.chosen == Key("/runs/b")
        await stage.pilot.click(RunListing, offset=(5, 1), times=2)
        await stage.settle()
        assert isinstance(stage.page.screen, ProcessScreen)

    play(act, runs("a", "b"))


def test_a_click_below_the_last_line_does_nothing():
    """There is nothing there to choose."""

    async def act(stage: Stage) -> None:
        await stage.pilot.click(RunListing, offset=(5, 9))
        await stage.settle()
        assert stage.chosen == Key("/runs/a")

    play(act, runs("a", "b"))


def test_slash_shows_what_matches():
    """As one types; enter keeps it, escape shows all again."""

    async def act(stage: Stage) -> None:
        await stage.press("slash", "b", "e", "t")
        assert stage.ids == ["beta"]
        await stage.press("enter")
        assert stage.sees("filter 'bet'")
        await stage.press("escape")
        assert stage.ids == ["alpha", "beta"]

    play(act, runs("alpha", "beta"))


def test_a_filter_that_matches_nothing_says_so():
    """An empty page has a reason, and a way back."""

    async def act(stage: Stage) -> None:
        await stage.press("slash", "[", "x", "enter")
        assert stage.sees("None of 1 run matches '[x'")
        await stage.press("escape")
        assert stage.ids == ["r1"]

    play(act)


def test_a_hides_what_has_ended():
    """And shows it again."""
    over = run_row("over", process_row(state="finished"), state="finished")

    async def act(stage: Stage) -> None:
        await stage.press("a")
        assert stage.ids == ["r1"]
        await stage.press("a")
        assert stage.ids == ["r1", "over"]

    play(act, MadeUp(now=seen(run_row("r1"), over)))


@pytest.mark.parametrize("key", ["space", "left", "enter"])
def test_a_run_of_several_processes_folds(key):
    """One line for all, or one for each."""
    rows = [process_row(pid=100 + rank, rank=rank) for rank in range(3)]

    async def act(stage: Stage) -> None:
        assert len(stage.listing.lines) == 4
        await stage.press(key)
        assert len(stage.listing.lines) == 1
        await stage.press("right")
        assert len(stage.listing.lines) == 4

    play(act, MadeUp(now=seen(run_row("dist", *rows))))


def test_left_on_a_process_folds_its_run():
    """And the run is chosen then."""
    rows = [process_row(pid=100 + rank, rank=rank) for rank in range(3)]

    async def act(stage: Stage) -> None:
        await stage.press("down", "down", "left")
        assert len(stage.listing.lines) == 1
        assert stage.chosen == Key("/runs/dist")

    play(act, MadeUp(now=seen(run_row("dist", *rows))))


def test_p_pauses():
    """The page says that it stands still, and goes on."""

    async def act(stage: Stage) -> None:
        await stage.press("p")
        assert stage.sees("paused")
        await stage.press("p")
        assert not stage.sees("paused")

    play(act)


def test_question_mark_explains_keys_and_marks():
    """And any of the keys that close things closes it."""

    async def act(stage: Stage) -> None:
        await stage.press("question_mark")
        assert isinstance(stage.page.screen, HelpScreen)
        assert stage.sees("trace now")
        await stage.press("escape")
        assert isinstance(stage.page.screen, Overview)

    play(act)


@pytest.mark.parametrize("keys", [("q",), ("enter", "q"), ("o", "q"), ("ctrl+c",)])
def test_q_ends_the_page_everywhere(keys):
    """With status 0."""

    async def act(stage: Stage) -> None:
        await stage.pilot.press(*keys)
        assert stage.page._exit
        assert stage.page.return_code == 0

    play(act)


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (20, 5), (200, 60)])
def test_every_screen_stands_any_size(size):
    """From a corner of a screen to a wall of one, and on the way from one to the other."""

    async def act(stage: Stage) -> None:
        for key in ("down", "enter", "t", "escape", "escape", "o", "escape", "question_mark"):
            await stage.pilot.press(key)
            await stage.pilot.resize_terminal(*size)
            await stage.pilot.pause()
            assert len(stage.screen) == size[1]
            await stage.pilot.resize_terminal(100, 30)
            await stage.pilot.pause()

    play(act)


@pytest.mark.parametrize("size", [(80, 24), (40, 10)])
def test_on_a_small_page_the_first_lines_are_still_seen(size):
    """State and rate of the first run are there at 40 by 10."""

    async def act(stage: Stage) -> None:
        (line,) = [line for line in stage.screen if "● running" in line]
        assert "28.3" in line

    play(act, size=size)


@pytest.mark.parametrize("name", ["[red]x[/]", "\x1b[31m\x07", "\u202egnp", "漢字" * 90, "[/"])
def test_hostile_names_are_only_text(name):
    """Markup, escape codes, marks of direction and wide letters change nothing on any screen."""
    row = process_row(host=name, role=name, rank=1)
    run = run_row("r", row, command=("python", name), user=name, id=name, directory=f"/r/{name}")
    source = MadeUp(now=seen(run), found=(finding(name),), answers=(name,))

    async def act(stage: Stage) -> None:
        for key in ("enter", "3", "4", "t", "enter"):
            await stage.press(key)
            text = "".join(stage.screen)
            assert "\x1b" not in text
            assert "\u202e" not in text
        await stage.look(seen())

    play(act, source)


def test_the_chosen_line_tells_what_is_wrong():
    """A half-written run says so where its numbers would be explained."""
    run = run_row("half", command=Missing("run.json is half written"))

    async def act(stage: Stage) -> None:
        assert stage.sees("no process has reported yet")
        assert stage.sees("half")

    play(act, MadeUp(now=seen(replace(run, processes=()))))


def test_a_straggler_is_named():
    """Of a folded run the slowest process is named, if it is slower than the others."""
    rows = [process_row(pid=100 + rank, rank=rank, p50_ns=35 * MS) for rank in range(4)]
    trend_ns = tuple(each * MS for each in (59, 60, 61, 95, 60))
    rows[2] = process_row(pid=102, rank=2, role="worker", p50_ns=60 * MS, trend_ns=trend_ns)

    async def act(stage: Stage) -> None:
        assert stage.sees("worker 2 is the slowest: 60.0 ms a step")

    play(act, MadeUp(now=seen(run_row("dist", *rows))))


def test_quiet_and_stopped_jobs_are_counted_above():
    """One line answers whether anything needs a look."""
    quiet = process_row(since_last_step_ns=60 * S)
    stopped = run_row("s", process_row(state="stopped"), state="stopped")
    over = run_row("o", process_row(state="killed"), state="killed")

    async def act(stage: Stage) -> None:
        assert stage.screen[0].startswith("1 running, 1 stopped, 1 without steps, 1 ended")

    play(act, MadeUp(now=seen(run_row("q", quiet), stopped, over)))


def test_the_summary_is_text_of_ours():
    """No widget reads what we write as markup."""

    async def act(stage: Stage) -> None:
        assert all(not each._render_markup for each in stage.page.screen.query(Static))

    play(act)


@pytest.mark.parametrize("keys", [(), ("enter",), ("t",), ("o",), ("enter", "2"), ("enter", "4")])
def test_no_name_steers_the_terminal(keys):
    """Names of runs, hosts, commands and of what went wrong are shown, and not obeyed."""
    evil = "e\x1b[35m\x9b2J\r\x07\x7f\u202e\n"
    row = process_row(role=evil, rank=3, host=evil)
    run = replace(run_row(f"r1{evil}", row), command=("python", evil), host=evil, user=evil)
    source = MadeUp(now=replace(seen(run), directory=f"/{evil}"), text=NoAnswer(evil))

    async def act(stage: Stage) -> None:
        await stage.press(*keys)
        text = "".join(stage.screen)
        assert text.isprintable(), ascii(text)
        assert "e\\x1b[35m" in text
        stage.page.take(NoAnswer(evil))
        await stage.settle()
        assert "".join(stage.screen).isprintable()

    play(act, source, size=(200, 30))
