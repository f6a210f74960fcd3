"""The first screen: all runs and processes, what the chosen one is, and the keys."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Input, Static

from tfprobe.live.top import pages
from tfprobe.live.top.columns import BY_NAME, ORDERS, order_of
from tfprobe.live.top.dialogs import LiveScreen
from tfprobe.live.top.lines import ListLine, lines
from tfprobe.live.top.listing import Headings, RunListing
from tfprobe.live.top.source import Key, TopSnapshot
from tfprobe.printable import printable


class Overview(LiveScreen):
    """All lines, one chosen."""

    CSS = """
    #summary { height: 1; }
    #empty { height: auto; padding: 1 2; display: none; }
    #about { height: 4; border-top: solid ansi_bright_black; }
    #filter { display: none; height: 1; border: none; padding: 0; }
    Overview.-low #about { display: none; }
    Overview.-no-lines Headings { display: none; }
    Overview.-no-lines #empty { display: block; }
    Overview.-filtering #filter { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        # As they stand in the last line, from the left: the first fit the narrowest page.
        Binding("enter", "enter", "open"),
        Binding("t", "app.sample", "trace"),
        Binding("o", "app.report", "report"),
        Binding("question_mark", "app.help", "help", key_display="?"),
        Binding("q", "app.quit", "quit"),
        Binding("s", "order(1)", "sort"),
        Binding("S", "order(-1)", "sort by the previous", show=False),
        Binding("r", "turn_round", "reverse"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("a", "live_only", "live"),
        Binding("p", "app.pause", "pause"),
        Binding("space", "fold", "fold", show=False),
        Binding("left", "fold(False)", "fold", show=False),
        Binding("right", "fold(True)", "unfold", show=False),
        Binding("escape", "leave", "no filter", show=False),
    ]

    def __init__(self) -> None:
        """Begin with all runs, newest first."""
        super().__init__()
        self._ordered_by = ORDERS[0]
        self._turned_round = False
        self._wanted = ""
        self._live_only = False
        self._turned: set[str] = set()

    def compose(self) -> ComposeResult:
        """Make the widgets from top to bottom."""
        yield Static(id="summary", markup=False)
        yield Headings()
        yield RunListing()
        yield Static(id="empty", markup=False)
        yield Static(id="about", markup=False)
        yield Input(placeholder="command, host, user, state or pid", id="filter", compact=True)
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Show what there is."""
        self.query_one(RunListing).focus()
        self.seen_changed(self.page.seen)

    @property
    def chosen(self) -> ListLine | None:
        """The line that keys act on."""
        return self.query_one(RunListing).chosen

    def seen_changed(self, seen: TopSnapshot | None) -> None:
        """Show a new snapshot."""
        if not self.is_shown:
            return
        chosen = self.chosen
        stays = self.query_one(RunListing).show(self._lines(seen))
        if not stays and chosen is not None and not self._is_there(chosen.key, seen):
            self.page.say(f"{_called(chosen)} is gone: its directory was removed.")
        self._show_all()

    def trouble_changed(self) -> None:
        """Show why there is no new snapshot, or that there is one again."""
        self._show_all()

    def on_run_listing_laid_out(self) -> None:
        """Name the columns that there is room for now."""
        self._show_all()

    def on_run_listing_chosen(self) -> None:
        """Tell of another line."""
        self._show_about()

    def on_run_listing_entered(self) -> None:
        """Enter the line that was clicked."""
        self.action_enter()

    def on_headings_clicked(self, event: Headings.Clicked) -> None:
        """Order by a column, or the other way round where it is by that one already."""
        if event.column.name not in ORDERS:
            return
        self._turned_round = event.column.name == self._ordered_by and not self._turned_round
        self._ordered_by = event.column.name
        self._again()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what matches what has been typed so far."""
        self._wanted = event.value
        self._again()

    def on_input_submitted(self) -> None:
        """Keep the filter and go back to the list."""
        self._end_typing()

    def action_order(self, by: int) -> None:
        """Order by the next column."""
        self._ordered_by = ORDERS[(ORDERS.index(self._ordered_by) + by) % len(ORDERS)]
        self._turned_round = False
        self._again()

    def action_turn_round(self) -> None:
        """Order the other way round."""
        self._turned_round = not self._turned_round
        self._again()

    def action_live_only(self) -> None:
        """Hide what has ended, or show it again."""
        self._live_only = not self._live_only
        self._again()

    def action_filter(self) -> None:
        """Let a person type what to show."""
        self.add_class("-filtering")
        self.query_one(Input).focus()

    def action_leave(self) -> None:
        """Show everything again."""
        self.query_one(Input).value = ""
        self._end_typing()

    def action_fold(self, opens: bool | None = None) -> None:
        """Show or hide the processes of the chosen run."""
        line = self.chosen
        if line is None:
            return
        if line.is_process and opens is not True:
            # Its run is what folds, and is chosen then.
            self.query_one(RunListing).choose(Key(line.run.directory))
            line = self.chosen
        if line is not None and line.is_open is not None and opens is not line.is_open:
            self._turned ^= {line.run.directory}
            self._again()

    def action_enter(self) -> None:
        """Show the process, or the processes of a run that has several."""
        line = self.chosen
        if line is None:
            return
        if line.is_open is not None:
            self.action_fold()
            return
        self.page.open_process(line.key)

    def _end_typing(self) -> None:
        self.remove_class("-filtering")
        self.query_one(RunListing).focus()

    def _again(self) -> None:
        self.query_one(RunListing).show(self._lines(self.page.seen))
        self._show_all()

    def _lines(self, seen: TopSnapshot | None) -> tuple[ListLine, ...]:
        if seen is None:
            return ()
        order = order_of(BY_NAME[self._ordered_by], turned_round=self._turned_round)
        return lines(
            seen, order=order, turned=self._turned, wanted=self._wanted, live_only=self._live_only
        )

    def _is_there(self, key: Key, seen: TopSnapshot | None) -> bool:
        return seen is not None and any(run.directory == key.directory for run in seen.runs)

    def _show_all(self) -> None:
        listing = self.query_one(RunListing)
        self.set_class(not listing.lines, "-no-lines")
        column = BY_NAME[self._ordered_by]
        self.query_one(Headings).show(
            listing.fitted,
            ordered_by=self._ordered_by,
            largest_first=column.largest_first != self._turned_round,
        )
        self._put(
            "#summary", pages.summary(self.page.seen, width=self.size.width, right=self._right())
        )
        self._put("#empty", Text(self._why_empty()))
        self._show_about()

    def _show_about(self) -> None:
        line, seen = self.chosen, self.page.seen
        if line is None or seen is None:
            self._put("#about", Text(""))
            return
        self._put("#about", pages.about(line, seen, width=self.size.width))

    def _right(self) -> str:
        facts = []
        if self._wanted:
            facts.append(f"filter {pages.cut(self._wanted, 20)!r}")
        if self._live_only:
            facts.append("live only")
        if self._ordered_by not in {fit.column.name for fit in self.query_one(RunListing).fitted}:
            facts.append(f"by {self._ordered_by}")
        facts.append(self.page.clock())
        return " · ".join(facts)

    def _why_empty(self) -> str:
        seen, trouble = self.page.seen, self.page.trouble
        if trouble is not None:
            return printable(str(trouble))
        if seen is None:
            return "Looking ..."
        if not seen.runs:
            return (
                f"There is no run in {printable(str(seen.directory))} yet.\n\n"
                "Record one with `tfprobe run -- COMMAND`; it appears here by itself."
            )
        runs = "1 run" if len(seen.runs) == 1 else f"{len(seen.runs)} runs"
        if self._wanted:
            return f"None of {runs} matches {self._wanted!r}. Escape shows all."
        return f"None of {runs} is running. `a` shows those that have ended."


def _called(line: ListLine) -> str:
    return pages.run_named(line.run)
