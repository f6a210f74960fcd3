"""What all screens of the page share: they are told of each new look."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rich.text import Text
from textual.screen import Screen
from textual.widgets import Static

from tfprobe.live.top.source import Seen

if TYPE_CHECKING:
    from tfprobe.live.top.app import TopPage


class LiveScreen(Screen[None]):
    """A screen that shows what is seen."""

    @property
    def page(self) -> TopPage:
        """The application, by its own type."""
        return cast("TopPage", self.app)

    @property
    def is_shown(self) -> bool:
        """Say whether it can be changed: what was read may come when it is gone."""
        return self.is_mounted and self in self.app.screen_stack

    def seen_changed(self, seen: Seen | None) -> None:
        """Show a new look."""

    def trouble_changed(self) -> None:
        """Say why there is no new look, or that there is one again."""

    def _put(self, selector: str, text: Text) -> None:
        """Change a text, unless it is there already: drawing costs more than comparing."""
        widget = self.query_one(selector, Static)
        if widget.content != text:
            # Its place is fixed: nothing has to be laid out anew.
            widget.update(text, layout=False)
