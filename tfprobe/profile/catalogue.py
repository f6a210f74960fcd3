"""Hold one line of a listing of runs."""

from __future__ import annotations

from dataclasses import dataclass

from tfprobe.errors import Missing
from tfprobe.profile.profile import LIVE_STATES, UNNAMED

NOT_MEASURED = Missing("not measured: that walks the whole run")
_UNTOLD = Missing("run.json does not say")
# Clocks of machines that nothing disciplines differ by as much.
_CLOCKS_DIFFER_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run at a glance.

    `host` is the launcher's, `hosts` those of its processes, too. `active_unix_ns` is the last sign
    of life on disk. `name` and `tags` are what it was called when it was launched.
    `size_bytes` is what it occupies on disk.
    """

    id: str
    directory: str
    command: tuple[str, ...] | Missing
    started: str | Missing
    host: str | Missing
    processes: int
    steps: int
    state: str
    user: str | Missing = _UNTOLD
    hosts: tuple[str, ...] = ()
    active_unix_ns: int | Missing = _UNTOLD
    size_bytes: int | Missing = NOT_MEASURED
    name: str | Missing = UNNAMED
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def is_live(self) -> bool:
        """Say whether it is there: its files may still grow."""
        return self.state in LIVE_STATES

    def age_ns(self, now_unix_ns: int) -> int | Missing:
        """Return how long ago it ended or last gave a sign of life; nothing while it is there."""
        if self.state in LIVE_STATES:
            return 0
        if isinstance(self.active_unix_ns, Missing):
            return self.active_unix_ns
        # A clock that was set back does not make a run of the future.
        return max(now_unix_ns - self.active_unix_ns, 0)

    def is_ahead(self, now_unix_ns: int) -> bool:
        """Say whether its last sign of life is of the future: one of two clocks is wrong."""
        active_ns = self.active_unix_ns
        if self.state in LIVE_STATES or isinstance(active_ns, Missing):
            return False
        return active_ns - now_unix_ns > _CLOCKS_DIFFER_NS
