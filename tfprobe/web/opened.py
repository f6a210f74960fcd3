"""A run that pages are made of: its profile as it is now, and what has been made of it already."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

from tfprobe.analysis.core.main_loop import main_loop_first
from tfprobe.errors import Missing, NoAnswer
from tfprobe.profile.graph import TracedLoop
from tfprobe.profile.profile import Loop, Profile
from tfprobe.profile.reader.run_reader import RunReader
from tfprobe.profile.reader.traced_steps import captures_of, sampled, with_shapes_of
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine
from tfprobe.web.params import Params

T = TypeVar("T")

# With what pages make of them, a million rows of captures took some 500 MB; see docs/web.md.
MOST_ROWS = 2_000_000


class Reading:
    """What has been read of one run. Answers are kept until the run has something new.

    `profile` is the newest that was read; None before the first `refresh`.
    """

    def __init__(self, following: RunReader) -> None:
        """Begin with nothing read."""
        self.lock = threading.RLock()
        self._following = following
        self._profile: Profile | None = None
        # Any: each key has its own kind of answer, which the one who asks by it knows.
        self._made: dict[Hashable, Any] = {}

    def refresh(self, watch: Callable[[int, int], None] | None = None) -> Profile:
        """Read what is new; return the profile, which is the same object where nothing is.

        Raises UnreadableInput when the run is gone.
        """
        with self.lock:
            profile = self._following.refresh(watch)
            if profile is not self._profile:
                self._profile = profile
                self._made.clear()
            return profile

    @property
    def profile(self) -> Profile:
        """The newest profile that was read."""
        return self._profile if self._profile is not None else self.refresh()

    @property
    def has_ended(self) -> bool:
        """Whether the run was over before it was read last: it changes no more."""
        return self._following.has_ended

    @property
    def left_out(self) -> str | None:
        """Which captures were not read, as a sentence; None where all were."""
        found = self._following.left_out
        return None if found is None else str(found)

    @property
    def row_count(self) -> int:
        """How many rows of tables it keeps in memory."""
        profile = self._profile
        return 0 if profile is None else len(profile.executions) + len(profile.spans)

    def made(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returned for this key since the run changed last."""
        with self.lock:
            if key not in self._made:
                self._made[key] = make()
            return cast("T", self._made[key])

    def loops(self) -> tuple[Loop, ...]:
        """Return all loops, the main loop first."""
        return main_loop_first(self.profile.loops)

    def loop(self, question: Params) -> Loop:
        """Return the loop that `work=` names by its place in the profile, else the first sampled.

        Raises NoAnswer where there is none.
        """
        if not self.profile.loops:
            raise NoAnswer("No step has been recorded.")
        most = len(self.profile.loops) - 1
        at = question.whole("work", default=-1, least=0, most=most)
        if at >= 0:
            return self.profile.loops[at]
        return min(self.loops(), key=lambda loop: not self._is_sampled(loop))

    def place(self, loop: Loop) -> int:
        """Return the place of one of its works in the profile, by which questions name it."""
        return next(at for at, each in enumerate(self.profile.loops) if each is loop)

    def _is_sampled(self, loop: Loop) -> bool:
        """Say whether it may be asked what its steps did: captures may not be read yet."""
        return loop.sampled > 0


class OpenRun(Reading):
    """One run directory, with its captures.

    `early` reads all but the captures, which takes milliseconds, behind a lock of its own: what is
    made of that does not wait for them. Works have the same places in both. `sibling` opens
    another run of the same directory by its id; it is None where there can be no other. Of
    captures with more than `most_rows` in all, the newest of each process are read.
    """

    def __init__(
        self,
        folder: RunFolder,
        here: Machine,
        *,
        rank: int | None = None,
        sibling: Callable[[str], OpenRun] | None = None,
        most_rows: int | None = MOST_ROWS,
    ) -> None:
        """Begin with nothing read; `rank` keeps the processes of one rank."""
        super().__init__(RunReader(folder, here, rank=rank, most_rows=most_rows))
        self.folder = folder
        self.sibling = sibling
        self.early = Reading(RunReader(folder, here, rank=rank, with_captures=False))

    def _is_sampled(self, loop: Loop) -> bool:
        return bool(captures_of(loop, self.profile))

    def sampled(self, loop: Loop, *, with_shapes: bool = False) -> TracedLoop | Missing:
        """Return the traced steps of a work with its graphs and code maps."""
        if not captures_of(loop, self.profile):
            return Missing("no step of this loop was traced")
        place = self.place(loop)
        found = self.made(("sampled", place), lambda: sampled(self.folder, self.profile, loop))
        if not with_shapes:
            return found
        # Its graphs are not read a second time.
        return self.made(
            ("shapes", place), lambda: with_shapes_of(self.folder, self.profile, found)
        )
