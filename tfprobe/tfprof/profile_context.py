"""`ProfileContext`: trace some of the Session.runs inside a `with`, and dump or show them.

It replaces BaseSession.run for all sessions while it is open. What does not go through it is not
seen: partial_run, callables, and with them Keras, functions and eager code.
"""

from __future__ import annotations

import functools
import random
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from tfprobe.errors import NoAnswer, TfprobeError, UsageError
from tfprobe.printable import printable, printable_lines
from tfprobe.tfprof.live_graph import write
from tfprobe.tfprof.profiler import Profiler
from tfprobe.tfprof.report import VIEWS

Run = Callable[..., Any]


class WrongUse(UsageError, ValueError):
    """A call that asks for what there is not; a ValueError, as TensorFlow's is."""


class NothingProfiled(NoAnswer, ValueError):
    """No step of a view has been shown; a ValueError, as TensorFlow's is."""


class ProfileContext:
    """Counts runs of sessions from 0 as steps, and traces, dumps and profiles some of them.

    `trace_steps` are traced; without them, from step 11 on, each set of fetches once and some more
    runs until half of the nodes are known. After a step of `dump_steps`, by default 100, all that
    is known is written to `profile_dir`/profile_STEP. An error of ours is written to stderr and
    never reaches the job. With `enabled` false nothing is done at all; with `debug` true each trace
    is also written as text.
    """

    def __init__(
        self,
        profile_dir: str,
        trace_steps: Iterable[int] | None = None,
        dump_steps: Iterable[int] | None = None,
        enabled: bool = True,
        debug: bool = False,
    ) -> None:
        """Raise WrongUse without a directory, and for more than 100 steps to trace."""
        self._enabled = enabled
        self._debug = debug
        self._profile_dir = str(profile_dir or "")
        self._choice = StepChoice(trace_steps, dump_steps)
        if enabled and not profile_dir:
            raise WrongUse("A ProfileContext needs a directory for its profiles.")
        if enabled and len(self._choice.named) > MAX_TRACED_STEPS:
            raise WrongUse(f"A ProfileContext traces up to {MAX_TRACED_STEPS} steps.")
        self._auto_profiles: list[tuple[str, Mapping[str, Any], frozenset[int]]] = []
        self._views: dict[str, dict[int, Any]] = {}
        self._step = 0
        self._profiler: Profiler | None = None
        self._one_at_a_time = threading.Lock()
        self._counting = threading.Lock()
        self._original: Run | None = None
        self._ours: Run | None = None

    @property
    def profiler(self) -> Profiler | None:
        """The profiler that traced steps go to; None if the context is not enabled."""
        if self._enabled and self._profiler is None:
            self._profiler = Profiler()
        return self._profiler

    def add_auto_profiling(
        self, cmd: str, options: Mapping[str, Any], profile_steps: Iterable[int]
    ) -> None:
        """Trace these steps, and after each show the view `cmd`: scope, graph, op or code.

        Raises WrongUse for another view.
        """
        if not self._enabled:
            return
        if cmd not in VIEWS:
            raise WrongUse(f"There is no cmd {cmd!r}.", hint=f"cmd is {', '.join(VIEWS)}.")
        steps = frozenset(profile_steps)
        self._auto_profiles.append((cmd, options, steps))
        self._choice.add(steps)

    def get_profiles(self, cmd: str) -> dict[int, Any]:
        """Return what add_auto_profiling has shown of a view, by step.

        Raises NothingProfiled if it has shown nothing.
        """
        if cmd not in self._views:
            raise NothingProfiled(f"No step has been profiled with {cmd!r}.")
        return self._views[cmd]

    def trace_next_step(self) -> None:
        """Trace the next run."""
        self._choice.trace_next()

    def dump_next_step(self) -> None:
        """Write the profile after the next run. This does not trace it."""
        self._choice.dump_next()

    def __enter__(self) -> ProfileContext:
        """Begin to count; raises WrongUse inside another ProfileContext."""
        if not self._enabled:
            return self
        sessions = _sessions()
        found = sessions.run
        if hasattr(found, "profile_context"):
            raise WrongUse("A ProfileContext is open already.", hint="Leave it before the next.")

        @functools.wraps(found)
        def run(
            session: Any,
            fetches: Any,
            feed_dict: Any = None,
            options: Any = None,
            run_metadata: Any = None,
        ) -> Any:
            if self._ours is None:  # we were left while somebody else's wrapper stood over ours
                return found(session, fetches, feed_dict, options, run_metadata)
            return self._count(session, fetches, feed_dict, options, run_metadata)

        run.profile_context = self  # type: ignore[attr-defined]
        self._original, self._ours = found, run
        sessions.run = run
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Put back BaseSession.run; the profiler stays usable."""
        if self._ours is None:
            return
        sessions = _sessions()
        if sessions.run is self._ours:
            sessions.run = self._original
        self._ours = None

    def _count(
        self, session: Any, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any
    ) -> Any:
        step = self._step
        is_ours = self._one_at_a_time.acquire(blocking=False)
        try:
            if is_ours and self._choice.may_want(step):
                return self._run(step, session, fetches, feed_dict, options, run_metadata)
            return self._plain(session, fetches, feed_dict, options, run_metadata)
        finally:
            with self._counting:
                self._step += 1
                self._choice.end_step()
            if is_ours:
                self._one_at_a_time.release()

    def _run(
        self,
        step: int,
        session: Any,
        fetches: Any,
        feed_dict: Any,
        options: Any,
        run_metadata: Any,
    ) -> Any:
        name = functools.partial(self._fetch_name, session.graph, fetches)
        if self._choice.traces(step, name, self._coverage_ratio):
            found = self._trace(step, session, fetches, feed_dict, options, run_metadata)
        else:
            found = self._plain(session, fetches, feed_dict, options, run_metadata)
        self._finish(step)
        return found

    def _plain(self, *arguments: Any) -> Any:
        assert self._original is not None, "the context is open"
        return self._original(*arguments)

    def _trace(
        self,
        step: int,
        session: Any,
        fetches: Any,
        feed_dict: Any,
        options: Any,
        run_metadata: Any,
    ) -> Any:
        """Run with FULL_TRACE, by options of our own: the caller's may serve other threads."""
        import tensorflow as tf

        self._say(f"debug: tracing step: {step}")
        traced = tf.compat.v1.RunOptions()
        if options is not None:
            traced.CopyFrom(options)
        traced.trace_level = tf.compat.v1.RunOptions.FULL_TRACE
        metadata = tf.compat.v1.RunMetadata() if run_metadata is None else run_metadata
        found = self._plain(session, fetches, feed_dict, traced, metadata)
        with _ReportedErrors():
            if self._debug:
                write(self._profile_dir, f"run_meta_{step}", str(metadata).encode())
            profiler = self.profiler
            assert profiler is not None, "only an enabled context traces"
            profiler.add_step(step, metadata, graph=session.graph)
        return found

    def _finish(self, step: int) -> None:
        """Dump and show what is due after a step."""
        profiler = self.profiler
        assert profiler is not None, "only an enabled context counts"
        if self._choice.dumps(step):
            self._say(f"debug: dumping file at step: {step}")
            with _ReportedErrors():
                write(self._profile_dir, f"profile_{step}", profiler.serialize_to_string())
        for cmd, options, steps in self._auto_profiles:
            if step not in steps:
                continue
            self._say(f"debug: profiling {cmd} step: {step}")
            with _ReportedErrors():
                self._views.setdefault(cmd, {})[step] = profiler.profile_view(cmd, options)

    def _fetch_name(self, graph: Any, fetches: Any) -> str:
        name = _fetch_name(graph, fetches)
        self._say(f"debug: trace fetches: {name}")
        return name

    def _coverage_ratio(self) -> float:
        if self._profiler is not None:
            with _ReportedErrors():
                return self._profiler.coverage_ratio
        return 0.0

    def _say(self, text: str) -> None:
        if self._debug:
            sys.stderr.write(f"{printable_lines(text)}\n")


class _ReportedErrors:
    """Reports an error of ours on stderr and drops it: the job goes on without its profile."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, TfprobeError):
            return False
        sys.stderr.write(f"tfprobe: {printable(str(error))}\n")
        return True


def _sessions() -> Any:
    from tensorflow.python.client import session

    return session.BaseSession


def _fetch_name(graph: Any, fetches: Any) -> str:
    """Return the sorted names of all fetches, whatever their structure."""
    from tensorflow.python.client import session

    with graph.as_default():
        found = session._FetchMapper.for_fetch(fetches).unique_fetches()
    return "-".join(sorted(each.name for each in found))


# Earlier runs differ from later ones: they create variables and fill caches.
WARMUP_STEPS = 10
MAX_TRACED_STEPS = 100
# Left to itself it goes on, now and then, until half of the nodes have been seen.
_ENOUGH_RATIO = 0.5
_CHANCES, _HITS = 10, 2
# TensorFlow's own, so that the same steps are traced.
_SEED = 111


class StepChoice:
    """Remembers which steps are wanted, what has been fetched, and how many were traced."""

    def __init__(self, trace_steps: Iterable[int] | None, dump_steps: Iterable[int] | None) -> None:
        """Trace and dump these steps; None leaves it to the rules."""
        self._is_auto = trace_steps is None
        self._trace_steps = set(trace_steps or ())
        self._dump_steps = {MAX_TRACED_STEPS} if dump_steps is None else set(dump_steps)
        self._traces_next = False
        self._dumps_next = False
        self._traced = 0
        self._fetched: set[str] = set()
        self._random = random.Random(_SEED)

    @property
    def named(self) -> frozenset[int]:
        """The steps that are to be traced by name."""
        return frozenset(self._trace_steps)

    def add(self, steps: Iterable[int]) -> None:
        """Trace these steps, too."""
        self._trace_steps |= set(steps)

    def trace_next(self) -> None:
        """Trace the next step."""
        self._traces_next = True

    def dump_next(self) -> None:
        """Dump after the next step."""
        self._dumps_next = True

    def end_step(self) -> None:
        """Clear the requests for the next step, which is over."""
        self._traces_next = self._dumps_next = False

    def may_want(self, step: int) -> bool:
        """Say, at almost no cost, whether there may be anything to do at a step."""
        is_named = step in self._trace_steps or self._traces_next or self.dumps(step)
        return is_named or (
            self._is_auto and step > WARMUP_STEPS and self._traced <= MAX_TRACED_STEPS
        )

    def dumps(self, step: int) -> bool:
        """Say whether the profile is dumped after a step."""
        return step in self._dump_steps or self._dumps_next

    def traces(
        self, step: int, fetch_name: Callable[[], str], coverage_ratio: Callable[[], float]
    ) -> bool:
        """Say whether a step is traced, and count it if it is.

        `fetch_name` names what the step fetches; `coverage_ratio` is the share of nodes that traced
        steps have statistics of. Each is evaluated only if it decides.
        """
        if self._traced > MAX_TRACED_STEPS:
            return False
        is_traced = (
            step in self._trace_steps
            or self._traces_next
            or (self._is_auto and step > WARMUP_STEPS and self._tries(fetch_name()))
            or (self._is_auto and self._draws(step, coverage_ratio))
        )
        self._traced += is_traced
        return is_traced

    def _tries(self, fetched: str) -> bool:
        """Say whether this has not been fetched before."""
        is_new = fetched not in self._fetched
        self._fetched.add(fetched)
        return is_new

    def _draws(self, step: int, coverage_ratio: Callable[[], float]) -> bool:
        """Say whether chance wants this step; a number is drawn only where it decides."""
        return (
            WARMUP_STEPS < step < MAX_TRACED_STEPS
            and coverage_ratio() < _ENOUGH_RATIO
            and self._random.randint(0, _CHANCES) < _HITS
        )
