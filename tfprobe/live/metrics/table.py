"""The table of all metrics: names, units and labels by the conventions of Prometheus, and values.

docs/metrics.md shows it to people, and a test compares the two.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tfprobe.analysis.jobs.fleet import run_row
from tfprobe.analysis.jobs.job_totals import slowness
from tfprobe.analysis.steps.recent_steps import (
    Overhead,
    last_end_ns,
    longest_interval_ns,
    recording_overhead,
)
from tfprobe.errors import Missing
from tfprobe.live.metrics.family import Family, FamilyKind, Series, Value, histogram, label
from tfprobe.live.metrics.subjects import (
    DEVICE_LABELS,
    LOOP_LABELS,
    NS_PER_S,
    PROCESS_LABELS,
    RUN_LABELS,
    DeviceSubject,
    LoopSubject,
    ProcessSubject,
    RunSubject,
)
from tfprobe.profile.activities import ResourceSample
from tfprobe.profile.profile import Loop
from tfprobe.runs.liveness import LIVE, STATES, UNKNOWN

_LONGEST_COMMAND = 200


class MetricSubject(Protocol):
    """Whatever has labels of its own, and a moment from which its counters count."""

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def since_unix_ns(self) -> int: ...


S = TypeVar("S", bound=MetricSubject)
# What a family says of one subject: the texts of its further labels, and a value.
Points = Iterable[tuple[tuple[str, ...], Value | Missing]]


@dataclass(frozen=True, slots=True)
class MetricRow(Generic[S]):
    """A family, and its points of one subject."""

    family: Family
    points: Callable[[S], Points]

    def series(self, subjects: Iterable[S]) -> Iterator[Series]:
        """Give the series of all subjects; what is missing has none."""
        for subject in subjects:
            for texts, value in self.points(subject):
                if not isinstance(value, Missing):
                    yield Series((*subject.labels, *texts), value, subject.since_unix_ns)


def _one(value: Callable[[S], Value | Missing]) -> Callable[[S], Points]:
    return lambda subject: (((), value(subject)),)


def _gauge(
    labels: Sequence[str], name: str, unit: str, points: Callable[[S], Points], text: str
) -> MetricRow[S]:
    return MetricRow(Family(name, FamilyKind.GAUGE, text, tuple(labels), unit), points)


def _counter(
    labels: Sequence[str], name: str, unit: str, points: Callable[[S], Points], text: str
) -> MetricRow[S]:
    return MetricRow(Family(f"{name}_total", FamilyKind.COUNTER, text, tuple(labels), unit), points)


def _info(
    labels: Sequence[str], name: str, points: Callable[[S], Points], text: str
) -> MetricRow[S]:
    return MetricRow(Family(f"{name}_info", FamilyKind.INFO, text, tuple(labels)), points)


def _seconds(time_ns: int | Missing) -> float | Missing:
    return time_ns if isinstance(time_ns, Missing) else time_ns / NS_PER_S


def _text(value: object, longest: int = _LONGEST_COMMAND) -> str:
    """Return a text of an info metric: none where it is missing, as if the label were not there."""
    return "" if value is None or isinstance(value, Missing) else label(str(value), longest=longest)


def _states(state: str) -> Points:
    return [((word,), int(word == state)) for word in STATES]


def _run_info(run: RunSubject) -> Points:
    look = run.look
    command = look.run.command
    command_line = command if isinstance(command, Missing) else shlex.join(command)
    yield (_text(look.host), _text(look.user), _text(command_line)), 1


def _is_readable(run: RunSubject) -> int:
    """Say whether run.json and every steps.bin could be read."""
    processes = (process.process for process in run.look.processes)
    # What a profiler service recorded has no steps.bin.
    hooks = (process.hooks for process in processes if process.port is None)
    return int(not any(isinstance(each, Missing) for each in (run.look.run.command, *hooks)))


def _slowness(run: RunSubject) -> Points:
    """Give the slowness of each process that has series, relative to its group."""
    shown = {process.labels for process in run.processes}
    for ratio, row in slowness(run_row(run.look)):
        labels = (label(row.host), label(row.folder))
        if (*run.labels, *labels) in shown:
            yield labels, ratio


RUNS: tuple[MetricRow[RunSubject], ...] = (
    _info((*RUN_LABELS, "launch_host", "user", "command"), "tfprobe_run", _run_info,
          "What was launched, where and by whom; the command is cut after 200 characters."),
    _gauge((*RUN_LABELS, "state"), "tfprobe_run_state", "", lambda run: _states(run.look.run.state),
           "1 for the state the run is in, 0 for the others."),
    _gauge(RUN_LABELS, "tfprobe_run_start_time_seconds", "seconds",
           _one(lambda run: _seconds(run.look.started_unix_ns)), "Unix time of the launch."),
    _gauge(RUN_LABELS, "tfprobe_run_processes", "", _one(lambda run: len(run.look.processes)),
           "Recorded processes, including those without series."),
    _gauge(RUN_LABELS, "tfprobe_run_readable", "", _one(_is_readable),
           "1 if run.json and each steps.bin can be read, else 0."),
    _gauge(RUN_LABELS, "tfprobe_run_problems", "", _one(lambda run: len(run.look.problems)),
           "Parts of the recording that cannot be used; `tfprobe report` names them."),
    _gauge(PROCESS_LABELS, "tfprobe_process_slowness_ratio", "ratio", _slowness,
           "Median step of the process divided by that of the median process of its group, "
           "while it runs."),
)  # fmt: skip


def _process_info(process: ProcessSubject) -> Points:
    facts = process.look.process
    command = label(shlex.join(facts.argv), longest=_LONGEST_COMMAND)
    versions = (_text(facts.tensorflow), _text(facts.python))
    pid = str(facts.pid) if facts.port is None else ""
    program = label(facts.shown_program or "", longest=_LONGEST_COMMAND)
    yield (pid, _text(facts.rank), _text(facts.role), *versions, command, program), 1


def _overhead(process: ProcessSubject) -> Overhead | Missing:
    return recording_overhead(process.look.process, process.look.loops)


def _overhead_parts(process: ProcessSubject) -> Points:
    overhead = _overhead(process)
    if isinstance(overhead, Missing):
        return
    yield ("traces",), overhead.traced_ns / NS_PER_S
    yield ("hooks",), overhead.hook_ns / NS_PER_S


def _overhead_ratio(process: ProcessSubject) -> float | Missing:
    overhead = _overhead(process)
    return overhead if isinstance(overhead, Missing) else overhead.fraction_ratio


def _silence_ratio(process: ProcessSubject) -> float | Missing:
    """Return how long no step has come, over the longest that it ever took of late."""
    look = process.look
    longest_ns, last_ns = longest_interval_ns(look.loops), last_end_ns(look.loops)
    if isinstance(longest_ns, Missing) or isinstance(look.now_mono_ns, Missing) or last_ns is None:
        return Missing("how long it has been silent, or what is usual, is unknown")
    if look.process.state not in (*LIVE, UNKNOWN):
        return Missing("the process has ended")
    return max(look.now_mono_ns - last_ns, 0) / max(longest_ns, 1)


def _shares(process: ProcessSubject) -> Points:
    shares = process.look.shares
    if isinstance(shares, Missing):
        return
    yield ("before",), shares.before_ratio
    yield ("on",), shares.on_ratio
    yield ("after",), shares.after_ratio
    yield ("other",), shares.other_ratio


def _shares_time(process: ProcessSubject) -> float | Missing:
    shares = process.look.shares
    return shares if isinstance(shares, Missing) else shares.newest_unix_ns / NS_PER_S


def _goodput_ratio(process: ProcessSubject) -> float | Missing:
    wall_time = process.look.wall_time
    return wall_time if isinstance(wall_time, Missing) else wall_time.goodput_ratio


def _time_parts(process: ProcessSubject) -> Points:
    wall_time = process.look.wall_time
    if isinstance(wall_time, Missing):
        return
    for part, time_ns in wall_time.parts_ns:
        yield (part,), time_ns / NS_PER_S


def _left(process: ProcessSubject) -> int | Missing:
    request = process.look.request
    if isinstance(request, Missing) or request.sequence == 0:
        return request if isinstance(request, Missing) else 0
    if request.seen != request.sequence or request.left < 0:
        return Missing("the process has not seen the latest request, or has not said so")
    return request.left


def _sampled(
    value: Callable[[ResourceSample], int | Missing],
) -> Callable[[ProcessSubject], int | Missing]:
    """Return a value of the latest resource sample of a process."""

    def latest(process: ProcessSubject) -> int | Missing:
        resource_samples = process.look.resource_samples
        return (
            value(resource_samples[-1])
            if resource_samples
            else Missing("no resource sample was taken")
        )

    return latest


def _cpu(process: ProcessSubject) -> Points:
    yield (
        ("user",),
        _seconds(_sampled(lambda sample: sample.user_ns)(process)),
    )
    yield (
        ("system",),
        _seconds(_sampled(lambda sample: sample.system_ns)(process)),
    )


def _switches(process: ProcessSubject) -> Points:
    yield (
        ("voluntary",),
        _sampled(lambda sample: sample.voluntary_switches)(process),
    )
    yield (
        ("involuntary",),
        _sampled(lambda sample: sample.involuntary_switches)(process),
    )


def _throttled(process: ProcessSubject) -> float | Missing:
    return _seconds(_sampled(lambda sample: sample.throttled_ns)(process))


def _run_delay(process: ProcessSubject) -> float | Missing:
    return _seconds(_sampled(lambda sample: sample.run_delay_ns)(process))


def _collections(process: ProcessSubject) -> float | Missing:
    return _seconds(_sampled(lambda sample: sample.gc_ns)(process))


PROCESSES: tuple[MetricRow[ProcessSubject], ...] = (
    _info((*PROCESS_LABELS, "pid", "rank", "role", "tensorflow", "python", "command", "program"),
          "tfprobe_process", _process_info,
          "What the process is; an unknown text is empty."),
    _gauge((*PROCESS_LABELS, "state"), "tfprobe_process_state", "",
           lambda process: _states(process.look.process.state),
           "1 for the state the process is in, 0 for the others."),
    _gauge(PROCESS_LABELS, "tfprobe_process_start_time_seconds", "seconds",
           _one(lambda process: process.since_unix_ns / NS_PER_S),
           "Unix time at which the process started."),
    _gauge(PROCESS_LABELS, "tfprobe_process_last_step_timestamp_seconds", "seconds",
           _one(lambda process: _seconds(process.last_step_unix_ns)),
           "Unix time at which the last step of the process ended."),
    _gauge(PROCESS_LABELS, "tfprobe_process_silence_ratio", "ratio", _one(_silence_ratio),
           "Time since its last step divided by the longest time between two of its latest "
           "steps, while it runs."),
    _gauge((*PROCESS_LABELS, "part"), "tfprobe_process_cycle_ratio", "ratio", _shares,
           "Shares of a cycle before, on and after the accelerator, from the latest captures."),
    _gauge(PROCESS_LABELS, "tfprobe_process_cycle_timestamp_seconds", "seconds",
           _one(_shares_time), "Unix time of the newest capture in tfprobe_process_cycle_ratio."),
    _gauge(PROCESS_LABELS, "tfprobe_process_goodput_ratio", "ratio", _one(_goodput_ratio),
           "Share of productive steps in the time since the process started."),
    _gauge((*PROCESS_LABELS, "part"), "tfprobe_process_time_seconds", "seconds", _time_parts,
           "Time since the process started, by part of the account."),
    _gauge(PROCESS_LABELS, "tfprobe_process_captures", "",
           _one(lambda process: process.look.process.captures), "Captures on disk."),
    _gauge(PROCESS_LABELS, "tfprobe_process_requested_samples", "", _one(_left),
           "Steps still to be traced for the latest `tfprobe trace`."),
    _counter((*PROCESS_LABELS, "part"), "tfprobe_process_overhead_seconds", "seconds",
             _overhead_parts, "Time spent on recording: on traces, and on hooks and everything "
                              "else."),
    _gauge(PROCESS_LABELS, "tfprobe_process_overhead_ratio", "ratio", _one(_overhead_ratio),
           "Share of the wall time spent on recording, since the process started."),
    _counter((*PROCESS_LABELS, "mode"), "tfprobe_process_cpu_seconds", "seconds", _cpu,
             "CPU time of the process."),
    _counter(PROCESS_LABELS, "tfprobe_process_throttled_seconds", "seconds", _one(_throttled),
             "Time during which the CPU limit of its control group throttled it."),
    _counter(PROCESS_LABELS, "tfprobe_process_run_delay_seconds", "seconds", _one(_run_delay),
             "Time during which its first thread was ready to run and had no CPU."),
    _counter(PROCESS_LABELS, "tfprobe_process_gc_seconds", "seconds", _one(_collections),
             "Time spent on garbage collections."),
    _counter(PROCESS_LABELS, "tfprobe_process_major_page_faults", "",
             _one(_sampled(lambda sample: sample.major_faults)),
             "Page faults that read from storage."),
    _gauge(PROCESS_LABELS, "tfprobe_process_threads", "",
           _one(_sampled(lambda sample: sample.threads)), "Threads of the process."),
    _counter((*PROCESS_LABELS, "type"), "tfprobe_process_context_switches", "", _switches,
             "Context switches of all its threads."),
    _gauge(PROCESS_LABELS, "tfprobe_process_resident_memory_bytes", "bytes",
           _one(_sampled(lambda sample: sample.resident_bytes)), "Resident memory."),
    _gauge(PROCESS_LABELS, "tfprobe_process_peak_resident_memory_bytes", "bytes",
           _one(_sampled(lambda sample: sample.peak_resident_bytes)), "Peak resident memory."),
    _gauge(PROCESS_LABELS, "tfprobe_process_memory_limit_bytes", "bytes",
           _one(_sampled(lambda sample: sample.memory_limit_bytes)),
           "The tightest limit of its control groups, if there is one."),
    _counter(PROCESS_LABELS, "tfprobe_process_read_bytes", "bytes",
             _one(_sampled(lambda sample: sample.read_bytes)), "Bytes read from storage."),
    _counter(PROCESS_LABELS, "tfprobe_process_written_bytes", "bytes",
             _one(_sampled(lambda sample: sample.written_bytes)), "Bytes written to storage."),
)  # fmt: skip


def _sum(value: Callable[[Loop], int]) -> Callable[[LoopSubject], Points]:
    return _one(lambda subject: sum(value(loop) for loop in subject.loops))


def _gap_seconds(subject: LoopSubject) -> float:
    return sum(max(loop.gaps.sum_ns, 0) for loop in subject.loops) / NS_PER_S


LOOPS: tuple[MetricRow[LoopSubject], ...] = (
    _counter(LOOP_LABELS, "tfprobe_steps", "", _sum(lambda loop: loop.count), "Completed steps."),
    _counter(LOOP_LABELS, "tfprobe_raised_steps", "", _sum(lambda loop: loop.raised),
             "Steps that ended with an exception; they are not in tfprobe_steps_total."),
    _counter(LOOP_LABELS, "tfprobe_samples", "", _sum(lambda loop: loop.sampled),
             "Traced steps."),
    _counter(LOOP_LABELS, "tfprobe_retraces", "", _sum(lambda loop: loop.retraces),
             "Number of times that a tf.function was retraced."),
    MetricRow(Family("tfprobe_step_duration_seconds", FamilyKind.HISTOGRAM,
               "Durations of steps, including those that raised an exception.",
               LOOP_LABELS, "seconds"),
        _one(lambda subject: histogram([loop.times for loop in subject.loops]))),
    _counter(LOOP_LABELS, "tfprobe_step_gap_seconds", "seconds", _one(_gap_seconds),
             "Time between a step of a thread and its next one."),
)  # fmt: skip


def _device(
    name: str, unit: str, value: Callable[[DeviceSubject], Value | Missing], text: str
) -> MetricRow[DeviceSubject]:
    return _gauge(DEVICE_LABELS, f"tfprobe_accelerator_{name}", unit, _one(value), text)


DEVICES: tuple[MetricRow[DeviceSubject], ...] = (
    _info((*DEVICE_LABELS, "model"), "tfprobe_accelerator",
          lambda device: [((label(device.sample.name),), 1)],
          "An accelerator of the machine that launched the run."),
    _device("utilization_ratio", "ratio", lambda device: device.sample.utilization_ratio,
            "Share of the time in which a kernel ran, from NVML."),
    _device("memory_used_bytes", "bytes", lambda device: device.sample.memory_used_bytes,
            "Memory in use, by all processes."),
    _device("memory_bytes", "bytes", lambda device: device.sample.memory_total_bytes,
            "Total memory."),
    _device("power_watts", "watts", lambda device: device.sample.power_watts, "Power drawn."),
    _device("temperature_celsius", "celsius", lambda device: device.sample.temperature_celsius,
            "Temperature."),
)  # fmt: skip
