"""Hold what a process did besides steps: named activities, the time between steps, its machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfprobe.errors import Missing

NOT_NOTED = Missing("this sample does not have it")


@dataclass(frozen=True, slots=True)
class Activity:
    """One interval of the application layer, in unix ns.

    `kind` is one of import, build, compile, trace, data, train, evaluate, predict, save, callbacks,
    summary, or "user" for one that the program named itself (`tfprobe.activity`). `name` is what
    was called, `thread` where. Of something that happens often only some intervals are kept:
    `count` and `total_ns` are those of all of this kind and name up to and with this one.
    `file` and `line` are where the job called for it; "" and 0 where that is not known.
    """

    process: int
    kind: str
    name: str
    thread: str
    start_ns: int
    end_ns: int
    count: int
    total_ns: int
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A function that ran between two steps, by where it was called from.

    `parent` is a position in `Gap.calls`, None for what was called by, or is, code around the step.
    `file` is "" and `line` 0 for a function written in C, whose `function` is "module.name".
    `line` is the first of the function, `called_line` the one in its parent that called it.
    `self_ns` is its own time, without what it called.
    """

    parent: int | None
    function: str
    file: str
    line: int
    called_line: int
    is_generator: bool
    count: int
    self_ns: int


@dataclass(frozen=True, slots=True)
class Gap:
    """The time of a thread from the end of a step to the start of the next, in unix ns.

    The self times of `calls` sum to `duration_ns`. Where `cut`, watching ended before the next
    step began: after too many calls, or because no step came.
    `cost_ns` is what watching added to it, by the agent's own measure; it is in `duration_ns`.
    `why` is "traced" behind a traced step, "sampled" of one gap among others, and "foreseen" of a
    long one that was due. `cpu_ns` is the CPU time of its thread, watching included.
    """

    process: int
    loop: int
    step: int
    start_ns: int
    duration_ns: int
    cost_ns: int
    cut: bool
    calls: tuple[Call, ...]
    why: str = "traced"
    cpu_ns: int | Missing = NOT_NOTED


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """CPU time of one thread of Python, or of threads that Python did not start, by their name.

    `file`, `line` and `function` are where it stood: the job's innermost code where it runs any;
    `is_in_python` says that it was stopped there between two instructions of Python, and not within
    a call. A place without a `cpu_ns` is that of Python in a thread that Python did not start.
    """

    name: str
    is_python: bool
    count: int
    cpu_ns: int | Missing
    runs_steps: bool = False
    file: str = ""
    line: int = 0
    function: str = ""
    is_in_python: bool = False


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """What the threads of a process used from `since_ns` to the pulse; unix ns.

    The first sample of a process has no `since_ns`: it tells of all the time that threads had been
    there. `unmapped` threads of Python are among the others.
    """

    since_ns: int | Missing
    threads: tuple[ThreadUse, ...]
    unmapped: int = 0


@dataclass(frozen=True, slots=True)
class ResourceSample:
    """What a process and its machine used up to one moment, in unix ns; counters since its start.

    `steps` counts those of all loops. Switches are context switches, `read_bytes` and
    `written_bytes` of storage. `cpus` are those it may run on; `cpu_limit` is the number of CPUs
    that its cgroup allows, `throttled_ns` how long that held it back. `major_faults` are page
    faults that had to read from storage, `run_delay_ns` is how long its first thread was ready to
    run and had no CPU, `gc_ns` what garbage collections took; `gc_pauses` are starts and ends, unix
    ns, of the longest of them since the pulse before. `machine_...` are sums over all CPUs of the
    machine, whoever ran on them: busy, idle while somebody waited for storage, and taken by the
    hypervisor. `thread_times` is CPU time by thread, which not each pulse has. `process` is None
    for a sample of the accelerators of a machine, `host`, alone, which `devices` holds. All are
    taken as a step begins but one `at_exit`, when what the steps held may have been given back.
    """

    process: int | None
    at_ns: int
    steps: int
    user_ns: int | Missing
    system_ns: int | Missing
    resident_bytes: int | Missing
    peak_resident_bytes: int | Missing
    threads: int | Missing
    voluntary_switches: int | Missing
    involuntary_switches: int | Missing
    read_bytes: int | Missing
    written_bytes: int | Missing
    cpus: int | Missing
    cpu_limit: float | Missing
    throttled_ns: int | Missing
    memory_limit_bytes: int | Missing
    machine_memory_bytes: int | Missing
    load_1min: float | Missing
    major_faults: int | Missing = NOT_NOTED
    run_delay_ns: int | Missing = NOT_NOTED
    gc_ns: int | Missing = NOT_NOTED
    machine_busy_ns: int | Missing = NOT_NOTED
    machine_io_wait_ns: int | Missing = NOT_NOTED
    machine_steal_ns: int | Missing = NOT_NOTED
    gc_pauses: tuple[tuple[int, int], ...] = ()
    thread_times: ThreadTimes | Missing = NOT_NOTED
    devices: tuple[DeviceSample, ...] = ()
    host: str = ""
    at_exit: bool = False


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """What NVML says of one accelerator at one moment. Ratios are 0..1; PCIe in bytes a second."""

    index: int
    name: str
    utilization_ratio: float | Missing
    memory_used_bytes: int | Missing
    memory_total_bytes: int | Missing
    power_watts: float | Missing
    power_limit_watts: float | Missing
    sm_clock_hz: int | Missing
    max_sm_clock_hz: int | Missing
    temperature_celsius: int | Missing
    pcie_sent_bytes_per_s: int | Missing
    pcie_received_bytes_per_s: int | Missing
    throttle_reasons: tuple[str, ...] = ()


Int64s = npt.NDArray[np.int64]
# Of a stretch in which no Python ran on its thread.
NO_STACK = -1


class SampledFrame(NamedTuple):
    """A line of a function; `file` is "" of one that a damaged recording has lost."""

    file: str
    line: int
    function: str


class SampledThread(NamedTuple):
    """A thread by the number that py-spy gives it: the native one, or that of pthreads."""

    id: int
    name: str


class SampledChunk(NamedTuple):
    """What one reader did, in unix ns. `samples` are those of all threads, `errors` what failed."""

    start_ns: int
    end_ns: int
    rate_per_s: int
    samples: int
    errors: int
    cost_ns: int


@dataclass(frozen=True, slots=True)
class StackSamples:
    """The stacks of one process, the same on a thread until the next row of it, in unix ns.

    A row's stack was read at `read_ns`, where it was first seen to differ; `start_ns` is half a
    sample before, since nobody knows when between two samples it changed. `nodes` has the innermost
    call of each row as a position in the call paths: `callers` and `frame_of`, callers first.
    `refusals` say why there are no stacks of some of the time.
    """

    process: int
    frames: tuple[SampledFrame, ...]
    callers: Int64s
    frame_of: Int64s
    threads: tuple[SampledThread, ...]
    thread: Int64s
    nodes: Int64s
    read_ns: Int64s
    start_ns: Int64s
    end_ns: Int64s
    chunks: tuple[SampledChunk, ...]
    refusals: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Return how many stacks were read, of all threads."""
        return sum(chunk.samples for chunk in self.chunks)

    @property
    def lasted_ns(self) -> int:
        """Return how long it was sampled."""
        return sum(chunk.end_ns - chunk.start_ns for chunk in self.chunks)

    @property
    def rates_per_s(self) -> tuple[int, int]:
        """Return the lowest and the highest rate of samples of each thread; 0 where none ran."""
        rates = [chunk.rate_per_s for chunk in self.chunks]
        return min(rates, default=0), max(rates, default=0)
