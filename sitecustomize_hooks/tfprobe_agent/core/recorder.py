"""The recording of this process: its folder, steps file, schedule and loops; created anew in a forked child."""

import os
import threading

from tfprobe_agent.boot import started
from tfprobe_agent.config import read_config
from tfprobe_agent.interruptions import let_through
from tfprobe_agent.unpatched import UNPATCHED

from . import framework, gaps, threads, tracing
from .guard import STATE, failed, never_raise, never_raise_noting, never_raise_tracing
from .loop import FURTHER, UNTIMED, ForwardingLoop, Loop, SharedLoop, UntimedLoop
from .process_dir import ProcessDir, tensorflow_version
from .schedule import Schedule
from .steps_file import StepsFile
from .steps_layout import (
    ACTIVE_WORD,
    CAPTURES,
    DISABLED,
    FINISHED,
    HOOK_CALLS,
    HOOK_NS,
    ONCE_NS,
    REQUEST,
    REQUEST_LEFT,
    REQUEST_LOOP,
    REQUEST_SEEN,
    REQUEST_STEPS,
    STATE_WORD,
    THREADS,
    TRACED_NS,
    TRACING_ENDED,
    UNTIMED_THREADS,
)
from .threads import ENDED, THREAD, this_thread

MAX_REQUEST = 1000000
# The last loops of the file, one for each of KINDS, are reserved for jobs of very many threads or kinds of step.
OVERFLOW_LOOPS = 15
# How long the exit waits for a traced step of another thread, in seconds. A step that waits itself, for a queue, is
# left.
EXIT_WAIT_S = 0.2


def find_named(kind, name):
    """Return this thread's Loop of that kind and name, creating it at first use."""
    loops = THREAD.current.loops
    key = (kind, name)
    loop = loops.get(key)
    if loop is None:
        loop = current_recorder().add_loop(kind, name)
        if loop.name == name:  # a job that makes up names without end must not grow by them
            loops[key] = loop
    return loop


class Recorder:
    """Everything recorded about one process."""

    def __init__(self, boot, started_ns, started_unix_ns, parent=None):
        self.boot = boot
        self.pid = UNPATCHED.getpid()
        self.lock = threading.RLock()
        self.config = CURRENT.config or read_config(boot)
        self.schedule = Schedule(self.config, started_ns)
        self.gap_plan = gaps.GapPlan(self.schedule)
        self.process_dir = ProcessDir(os.path.dirname(boot), started_unix_ns, parent)
        STATE.log.paths.append(self.process_dir.path("agent.log"))
        self.steps = StepsFile(self.process_dir.path("steps.bin"), started_ns)
        self.request_seen = 0
        self.shared = {}  # the loop shared by all threads without a block of their own, by kind
        self.free = {}  # loops of ended threads, by kind and name
        self.loops = self.schedule.loops = []
        self.calibrated = False
        self.settings_written = False
        self.watches = set()  # the open ones of all threads
        self.event_ns = None  # the cost of one profile event, once measured
        self.has_process_file = False
        self.write_process()
        if parent is not None:
            self.process_dir.event("fork", parent=parent)
        self.process_dir.event("start", tensorflow=tensorflow_version(), frameworks=framework.versions())

    def write_process(self):
        """Write process.json, again when devices and possibly a cluster become known; ranks trace the same steps."""
        try:
            self.process_dir.write_process()
            self.has_process_file = True
        except OSError:
            let_through()  # a full disk: try again at exit
        rank = self.process_dir.rank
        self.schedule.is_rank = rank is not None and rank["world"] != 1

    def add_loop(self, kind, name):
        """Return a Loop for this thread: one of an ended thread, a new one, or, without room, one that all share."""
        current = THREAD.current
        loop = current.loops.get((kind, UNTIMED))
        if loop is not None:
            return loop
        with self.lock:
            self._free_ended()
            free = self.free.get((kind, name))
            if free:
                loop = free.pop()
                loop.pass_on()
            elif self.steps.used < self.steps.capacity - OVERFLOW_LOOPS:
                loop = self._new_loop(kind, name)
            return loop or self._forwarding(current, kind) or self._untimed(current, kind)

    def _free_ended(self):
        """Take over the loops of threads that have ended, except those of the parent process."""
        while ENDED:
            for key, loop in ENDED.popleft().items():
                if loop.file is self.steps and loop.index >= 0 and loop.shared is None:
                    self.free.setdefault(key, []).append(loop)

    def _new_loop(self, kind, name, make=None):
        thread, thread_id = this_thread()
        make = make or CURRENT.make_loop
        loop = self.steps.add_loop(kind, name, thread, thread_id, UNPATCHED.monotonic_ns(), make)
        if loop is None:
            return None  # the disk is full
        self.loops.append(loop)
        loop.trace_at(self.schedule.first_trace(loop))
        self.process_dir.event("work", work=loop.index, kind=kind, name=name, thread=thread)
        return loop

    def _forwarding(self, current, kind):
        """Return this thread's way to the loop that all threads share for this kind; None if there is no room."""
        key = (kind, FURTHER)
        if key not in current.loops:
            shared = self.shared.get(kind)
            if shared is None:
                shared = self._new_loop(kind, FURTHER, SharedLoop)
                if shared is None:
                    return None
                self.shared[kind] = shared
            else:
                shared.words[shared.base + THREADS] += 1
            current.loops[key] = ForwardingLoop(shared)
        return current.loops[key]

    def _untimed(self, current, kind):
        """Return a loop that only counts this thread's steps of a kind, for some time, because there is no room."""
        key = (kind, UNTIMED)

        def look_for_room():
            current.loops.pop(key, None)
            current.loop_cache.clear()
            current.cache_references.clear()

        if not current.untimed:
            current.untimed = True
            self.steps.add(UNTIMED_THREADS, 1)
        loop = UntimedLoop(self.steps, kind, self.lock, UNPATCHED.monotonic_ns(), look_for_room)
        current.loops[key] = loop
        return loop

    def poll_request(self, loop):
        """Read the control words after they changed: accept the trace request in them, or write why not."""
        with self.lock:
            words, schedule = self.steps.words, self.schedule
            sequence = words[REQUEST]
            loop.request_seen = sequence
            if sequence == self.request_seen:
                return
            self.request_seen = sequence
            steps, index = words[REQUEST_STEPS], words[REQUEST_LOOP]
            why = self._declines(steps, index)
            if why is None:
                self._take(sequence, steps, index)
            else:
                self.process_dir.event("declined", work=loop.index, step=loop.n, why=why, times=1, request=sequence)
            self.steps.put(REQUEST_LEFT, schedule.requested)
            self.steps.put(REQUEST_SEEN, sequence)

    def _take(self, sequence, steps, index):
        """Accept a trace request in place of the previous one, which may lack traced steps."""
        schedule = self.schedule
        for loop in self.loops:  # the reasons for declining are reported anew
            self._report_declined(loop)
            loop.declined = None, 0, 0
        self.process_dir.event(
            "request", request=sequence, samples=steps, work=index, lacking=schedule.requested,
            superseded=schedule.sequence if schedule.requested else None,
        )  # fmt: skip
        schedule.request(steps, index, sequence)

    def _declines(self, steps, index):
        """Return why a trace request is not accepted, or None."""
        if not (1 <= steps <= MAX_REQUEST and -1 <= index < self.steps.used):
            return "unreadable control word"
        if self.config.trace_level == "off":
            return "recorded with --trace-level off"  # tracing may be what this job cannot bear
        return None if STATE.tracing else "tracing has ended after an error"

    def captured(self, loop, added_ns, sequence=None):
        """Account for a capture of the step just recorded."""
        with self.lock:
            self.schedule.taken(loop, added_ns, sequence)
            self.steps.add(CAPTURES, 1)
            self.steps.add(TRACED_NS, added_ns)
            self.steps.put(REQUEST_LEFT, self.schedule.requested)
            self.steps.put(ACTIVE_WORD, UNPATCHED.monotonic_ns())

    def watched(self, loop, why, added_ns):
        """Account for watching a gap. After a traced step this counts in planning the next one."""
        with self.lock:
            if why == "traced":
                loop.cost_ns += added_ns
            else:
                self.gap_plan.taken(loop, why, added_ns)
            self.schedule.spent_ns += added_ns
            self.steps.add(TRACED_NS, added_ns)

    def declined(self, loop, why):
        """Note that a step was to be traced and was not; written at the 1st, 2nd, 4th ... time in a row and at exit."""
        self.schedule.declined(loop)
        if why != loop.declined[0]:
            self._report_declined(loop)
            loop.declined = why, 0, 0
        _, times, reported = loop.declined
        loop.declined = why, times + 1, reported
        if times & (times + 1) == 0:
            self._report_declined(loop)

    def _report_declined(self, loop):
        why, times, reported = loop.declined
        if times > reported:
            request = self.schedule.sequence if self.schedule.wanted_by_request(loop) else None
            self.process_dir.event(
                "declined", work=loop.index, step=loop.n, why=why, times=times - reported, request=request
            )  # fmt: skip
            loop.declined = why, times, times

    def spent_once(self, added_ns, in_budget=True):
        """Account for costs that occur once: patching, graphs, code maps."""
        self.steps.add(ONCE_NS, int(added_ns))
        if in_budget:
            self.schedule.spent_ns += added_ns

    def measured_hook(self, calls, added_ns):
        """Store the agent's measurement of its own cost on a step that is not traced."""
        self.steps.put(HOOK_CALLS, calls)
        self.steps.put(HOOK_NS, max(0, added_ns))

    def finish(self):
        """Mark the process as ended by a normal exit.

        The interpreter kills daemon threads where they next ask for its lock. In the middle of a traced step that may
        be below C++ frames that cannot be unwound, and the process would abort. So no traced step begins any more, and
        one under way is given time to end.
        """
        STATE.leaving = True
        never_raise_noting(gaps.end_all)(self, THREAD.current)
        for loop in self.loops:
            loop.look()
            self._report_declined(loop)
        window = tracing.TRACING.window
        if window is not None:
            window.surrender()  # after the last step of an eager loop, no further step ends its window
        if tracing.is_given_back(EXIT_WAIT_S):
            never_raise_tracing(self.process_dir.remove_windows)()
        for known in list(framework.LOADED):
            try:
                known.finish(self)
            except Exception:
                failed("finishing %s" % known.name, noting_only=True)
        self.steps.put(ACTIVE_WORD, UNPATCHED.monotonic_ns())
        self.steps.note_exit()
        self.steps.put(STATE_WORD, FINISHED)
        self.steps.write()
        if not self.has_process_file:
            self.write_process()
        self.process_dir.event("exit")
        self.process_dir.write_lines()


class _Current:
    """The recorder of this process, opened at the first TensorFlow import or, after a fork, at the first step."""

    recorder = None
    opening = threading.Lock()
    boot = None
    config = None  # of that boot directory, once it has been read
    make_loop = Loop  # a class of its own in a trial
    started_ns, started_unix_ns = started()
    parent = None


CURRENT = _Current()


def current_recorder():
    """Return this process's recorder, opening it if needed; raise OSError or ValueError when that fails."""
    if CURRENT.recorder is not None:
        return CURRENT.recorder
    with CURRENT.opening:
        if CURRENT.recorder is None:
            recorder = Recorder(CURRENT.boot, CURRENT.started_ns, CURRENT.started_unix_ns, CURRENT.parent)
            CURRENT.recorder = recorder
            STATE.on_failure = _report_failure
    return CURRENT.recorder


def forget_parent():
    """Leave the parent's files alone, in a forked child; the child's first step opens its own."""
    parent = CURRENT.recorder
    if parent is not None:  # else keep the nearest ancestor that was recorded: a daemon forks twice before it runs
        CURRENT.parent = parent.process_dir.name
        parent.steps.leave(parent.loops)
    CURRENT.recorder = None
    CURRENT.opening = threading.Lock()
    CURRENT.started_ns, CURRENT.started_unix_ns = started()
    STATE.on_failure = None
    STATE.leaving = False
    STATE.log = type(STATE.log)()
    gaps.forget(THREAD.current)
    threads.forget()


@never_raise
def at_exit():
    """Finish the recording in the process that made it; a child of os.fork runs its parent's exit hooks, too."""
    recorder = CURRENT.recorder
    if recorder is not None and recorder.pid == UNPATCHED.getpid():
        recorder.finish()


def _report_failure(where, what, disabled):
    recorder = CURRENT.recorder
    if recorder is None:
        return
    recorder.process_dir.event("error", where=where, what=what)
    if not STATE.tracing:
        recorder.steps.put(TRACING_ENDED, 1)  # there may have been no room for the event
    if disabled:
        recorder.process_dir.event("aside", why="an error in %s" % where)
        recorder.steps.put(STATE_WORD, DISABLED)
        recorder.steps.write()  # no step will look any more
