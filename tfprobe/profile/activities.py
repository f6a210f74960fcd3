"""Records of what a process did besides steps: activities, gaps, its machine, its stacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfprobe.errors import Missing

NOT_NOTED = Missing("this sample does not have it")
# Kinds of activities that make a function ready to run: TensorFlow has the first, JAX the first
# three, PyTorch the last.
COMPILING = ("trace", "lower", "xla", "torch_compile")


@dataclass(frozen=True, slots=True)
class Activity:
    """One interval of the application layer, in unix ns.

    `kind` is one of import, build, compile, trace, lower, xla, torch_compile, data, train,
    evaluate, predict, save, callbacks, summary, or "user" for one that the program named itself
    (`tfprobe.activity`). `name` is what was called, `thread` the thread that called it. Of frequent
    activities only some intervals are kept: `count` and `total_ns` cover all of this kind and name
    up to and including this one. `file` and `line` are where the job called it, "" and 0 if that is
    unknown.
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

    `parent` is a position in `Gap.calls`, None for code around the step and what it called.
    `line` is the first line of the function, `called_line` the line of its parent that called it.
    A function written in C has "" as `file`, 0 as `line` and "module.name" as `function`.
    `self_ns` is its own time, without the functions that it called.
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
class StepWait:
    """How often and how long a line of the job waited for a step that its call only queued.

    `file` is "" and `line` 0 where the job has no line there.
    """

    file: str
    line: int
    times: int
    ns: int


@dataclass(frozen=True, slots=True)
class Gap:
    """The time of a thread from the end of a step to the start of the next, in unix ns.

    The self times of `calls` sum to `duration_ns`. `cut` says that watching ended before the next
    step began: after too many calls, or because no step came. `cost_ns` is what watching added, as
    measured by the agent; it is part of `duration_ns`. `why` is "traced" after a traced step,
    "sampled" for a gap chosen among others, "foreseen" for a long gap that was expected. `cpu_ns`
    is the CPU time of its thread, including watching. `waits` are those for the step before it, if
    its call only queued it.
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
    waits: tuple[StepWait, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """CPU time of one thread of Python, or of threads that Python did not start, by name.

    `file`, `line` and `function` are where it was: in the innermost code of the job, if any.
    `is_in_python` says that it was between two instructions of Python there, and not in a call. If
    `cpu_ns` is missing, the place is that of Python code in a thread that Python did not start.
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
    """What the threads of a process used from `since_ns` to the sample; unix ns.

    The first sample of a process has no `since_ns`: it covers the whole life of its threads.
    `unmapped` threads of Python are counted among the others.
    """

    since_ns: int | Missing
    threads: tuple[ThreadUse, ...]
    unmapped: int = 0


@dataclass(frozen=True, slots=True)
class ResourceSample:
    """What a process and its machine have used at one moment, in unix ns.

    Counters count from the start of the process.

    - `steps` is the number of steps of all loops.
    - Switches are context switches; `read_bytes` and `written_bytes` are those of storage.
    - `cpus` is how many CPUs it may run on, `cpu_limit` how many its cgroup allows, `throttled_ns`
      how long that limit stopped it.
    - `major_faults` are page faults that read from storage; `run_delay_ns` is how long its first
      thread was ready to run and had no CPU.
    - `gc_ns` is the time of garbage collections; `gc_pauses` has starts and ends, unix ns, of the
      longest ones since the sample before.
    - `machine_...` are sums over all CPUs of the machine, whoever ran on them: busy, idle while
      waiting for storage, and taken by the hypervisor.
    - `thread_times` is CPU time by thread; not every sample has it.
    - `process` is None in a sample of the accelerators of the machine `host`, which are in
      `devices`.

    A sample is taken when a step begins, except the one `at_exit`, when memory of the steps may
    already have been freed.
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
    """What NVML reports for one accelerator at one moment. Ratios are 0..1."""

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
# The node of an interval in which no Python code ran on the thread.
NO_STACK = -1


class SampledFrame(NamedTuple):
    """A line of a function; `file` is "" if a damaged recording has lost it."""

    file: str
    line: int
    function: str


class SampledThread(NamedTuple):
    """A thread, with the id that py-spy reports: the native one, or that of pthreads."""

    id: int
    name: str


class SampledChunk(NamedTuple):
    """What one sampler did, in unix ns. `samples` counts all threads, `errors` failed samples."""

    start_ns: int
    end_ns: int
    rate_per_s: int
    samples: int
    errors: int
    cost_ns: int


@dataclass(frozen=True, slots=True)
class StackSamples:
    """The sampled stacks of one process, in unix ns.

    A row's stack lasts until the next row of its thread. It was read at `read_ns`, when it was
    first seen to differ; `start_ns` is half a sample earlier, as it changed at an unknown time
    between two samples. `nodes` has the innermost call of each row as a position in the call paths
    `callers` and `frame_of`, which have callers first.
    `refusals` say why some of the time has no stacks.
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
        """Return the number of stacks that were read, of all threads."""
        return sum(chunk.samples for chunk in self.chunks)

    @property
    def lasted_ns(self) -> int:
        """Return for how long the process was sampled."""
        return sum(chunk.end_ns - chunk.start_ns for chunk in self.chunks)

    @property
    def rates_per_s(self) -> tuple[int, int]:
        """Return the lowest and the highest sampling rate; 0 if there are no samples."""
        rates = [chunk.rate_per_s for chunk in self.chunks]
        return min(rates, default=0), max(rates, default=0)
