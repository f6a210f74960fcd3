"""Follow the events of a process: which steps were sampled, what was chosen, what went wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tfprobe.errors import Missing
from tfprobe.profile.profile import OwnProfiler, Problem, Raised
from tfprobe.runs.events import Event, event_log
from tfprobe.runs.layout import ProcessFolder

NO_SETTINGS = Missing("settings are told at the first sample, and there was none")


# What the agent says where the job has TensorFlow's profiler.
_PROFILING = ("the job is profiling", "a profiler session is open in this process")


class FollowedEvents:
    """What the events of one process say."""

    def __init__(self, folder: ProcessFolder) -> None:
        """Begin with nothing read."""
        self._where = f"{folder.host}/{folder.name}"
        self._log = event_log(folder.events)
        self._forget()

    def _forget(self) -> None:
        # By the file of the capture, as they were taken.
        self.samples: dict[str, Event] = {}
        self.settings: Mapping[str, Any] | Missing = NO_SETTINGS
        # Unix time less monotonic time, as any event tells it; 0 where there is none.
        self.unix_minus_monotonic_ns = 0
        self._problems: list[Problem] = []
        self.exception: Raised | None = None
        # As it was open for longest.
        self.own_profiler: OwnProfiler | None = None
        self._profiling_since_ns: int | None = None
        self._declined = 0
        self._started_at: tuple[str, int] = ("", 0)

    def read(self) -> None:
        """Read what is new."""
        news = self._log.read()
        if news.is_from_start:
            self._forget()
        for event in news.things:
            self._note(event)

    def problems(self) -> Iterator[Problem]:
        """Give what went wrong, in the file and in the agent."""
        if self._log.bad_lines:
            yield Problem(
                self._where, f"{self._log.bad_lines} lines of events.jsonl are not events."
            )
        yield from self._problems

    def _note(self, event: Event) -> None:
        mono_ns = event.integer("mono_ns")
        if event.unix_ns and mono_ns and not self.unix_minus_monotonic_ns:
            self.unix_minus_monotonic_ns = event.unix_ns - mono_ns
        name, told = event.text("capture"), event.fields.get("settings")
        if event.kind == "sample" and name is not None:
            self.samples[name] = event
        if event.kind == "settings" and isinstance(told, dict):
            self.settings = _chosen(told) if isinstance(self.settings, Missing) else self.settings
        self._note_own_profiler(event)
        if event.kind == "exception":
            self.exception = _raised(event)
        if event.kind == "aside":
            why = event.text("why") or "it did not say why"
            self._tell(f"The agent stepped aside, so later steps are missing: {why}.")
        if event.kind == "error":
            text = f"{event.text('where') or '?'}: {event.text('what') or '?'}"
            self._tell(f"The agent noted an error of its own at {text}.")

    def _note_own_profiler(self, event: Event) -> None:
        if event.kind == "profiling":
            self._started_at = event.text("file") or "", event.integer("line") or 0
        if event.kind == "sample":
            self._profiling_since_ns, self._declined = None, 0
        if event.kind != "declined" or event.text("why") not in _PROFILING:
            return
        if self._profiling_since_ns is None:
            self._profiling_since_ns = event.unix_ns
        self._declined += max(event.integer("times") or 1, 1)
        open_ns = event.unix_ns - self._profiling_since_ns
        if self.own_profiler is None or open_ns >= self.own_profiler.open_ns:
            self.own_profiler = OwnProfiler(self._declined, open_ns, *self._started_at)

    def _tell(self, what: str) -> None:
        self._problems.append(Problem(self._where, what))


def _chosen(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings, of which the environment is one by name; a damaged file may hold another."""
    is_sound = isinstance(settings.get("environment"), dict | None)
    return settings if is_sound else {**settings, "environment": {}}


def _raised(event: Event) -> Raised:
    return Raised(
        type=event.text("type") or "an exception",
        message=event.text("message") or "",
        file=event.text("file"),
        line=event.integer("line"),
    )
