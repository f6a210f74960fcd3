"""Divide the CPU time of a process between its threads, with the Python lines they ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tfprobe.analysis.system.machine_use import others_cpus
from tfprobe.errors import Missing
from tfprobe.profile.activities import ResourceSample, ThreadTimes, ThreadUse
from tfprobe.profile.graph import is_of_library
from tfprobe.profile.profile import Profile

NOT_TAKEN = Missing("no sample has CPU times of threads")
ONE_SAMPLE = Missing("one sample does not give CPU times of threads")
NO_CPU_TIME = Missing("the CPU time of the process is unknown")
UNNAMED = "(not named)"


@dataclass(frozen=True, slots=True)
class Stand:
    """A line at which a thread was seen in `samples` samples, `in_python` of them in Python."""

    file: str
    line: int
    function: str
    samples: int
    in_python: int


@dataclass(frozen=True, slots=True)
class ThreadGroup:
    """Threads of one name: a Python thread, or a pool that the kernel knows by name.

    `threads` is the largest number at once, `cores` how many CPUs they kept busy, `ratio` their
    share of the CPU time of the process. `stands` are the lines they were seen at, most frequent
    first; empty for threads that run steps.
    """

    name: str
    is_python: bool
    threads: int
    cpu_ns: int
    cores: float
    ratio: float | Missing
    runs_steps: bool
    stands: tuple[Stand, ...]


@dataclass(frozen=True, slots=True)
class ProcessThreads:
    """The CPU time of a process by thread, between the first and the last sample.

    `cpu_ns` is that of the process, `ended_ns` the part in no group: threads that had ended.
    `guests` are Python lines in threads that Python did not start, `unmapped` the number of Python
    threads among the others. `run_delay_ns` is that of the first thread in the same time.
    """

    samples: int
    watched_ns: int
    cpu_ns: int | Missing
    groups: tuple[ThreadGroup, ...]
    ended_ns: int | Missing
    guests: tuple[Stand, ...]
    unmapped: int
    run_delay_ns: int | Missing


@dataclass(frozen=True, slots=True)
class _Sample:
    """A resource sample with thread times, and the one before it."""

    before: ResourceSample
    sample: ResourceSample
    since_ns: int
    times: ThreadTimes


def thread_times(resource_samples: Sequence[ResourceSample]) -> ProcessThreads | Missing:
    """Return the CPU time of a process's threads, from its samples in order of time."""
    timed = [sample for sample in resource_samples if isinstance(sample.thread_times, ThreadTimes)]
    samples = tuple(_samples(timed))
    if not timed:
        reasons = (sample.thread_times for sample in resource_samples)
        return next((reason for reason in reasons if isinstance(reason, Missing)), NOT_TAKEN)
    if not samples:
        return ONE_SAMPLE
    watched_ns = sum(sample.sample.at_ns - sample.since_ns for sample in samples)
    cpu_ns = _summed([_used_ns(sample) for sample in samples])
    groups = tuple(_groups(samples, max(watched_ns, 1), cpu_ns))
    grouped_ns = sum(group.cpu_ns for group in groups)
    return ProcessThreads(
        samples=len(samples),
        watched_ns=watched_ns,
        cpu_ns=cpu_ns,
        groups=groups,
        ended_ns=cpu_ns if isinstance(cpu_ns, Missing) else max(cpu_ns - grouped_ns, 0),
        guests=_stands(
            use
            for sample in samples
            for use in sample.times.threads
            if isinstance(use.cpu_ns, Missing)
        ),
        unmapped=max(sample.times.unmapped for sample in samples),
        run_delay_ns=_summed([_delay_ns(sample) for sample in samples]),
    )


def _samples(timed: Sequence[ResourceSample]) -> Iterator[_Sample]:
    for before, sample in pairwise(timed):
        times = sample.thread_times
        if isinstance(times, Missing) or isinstance(times.since_ns, Missing):
            continue
        if times.since_ns < sample.at_ns:
            yield _Sample(before, sample, times.since_ns, times)


def _groups(
    samples: Sequence[_Sample], watched_ns: int, cpu_ns: int | Missing
) -> Iterator[ThreadGroup]:
    """Yield the groups, those that used the most CPU time first."""
    by_group: dict[tuple[bool, str], list[ThreadUse]] = {}
    most: Counter[tuple[bool, str]] = Counter()
    for sample in samples:
        counts: Counter[tuple[bool, str]] = Counter()
        for use in sample.times.threads:
            if not isinstance(use.cpu_ns, Missing):
                key = (use.is_python, use.name)
                by_group.setdefault(key, []).append(use)
                counts[key] += use.count
        most |= counts
    sums_ns = {key: sum(map(_known_ns, uses)) for key, uses in by_group.items()}
    # The clocks of threads are finer than that of the process.
    total_ns = cpu_ns if isinstance(cpu_ns, Missing) else max(cpu_ns, sum(sums_ns.values()), 1)
    for key in sorted(by_group, key=lambda key: (-sums_ns[key], key)):
        is_python, name = key
        uses, used_ns = by_group[key], sums_ns[key]
        yield ThreadGroup(
            name=name or UNNAMED,
            is_python=is_python,
            threads=most[key],
            cpu_ns=used_ns,
            cores=used_ns / watched_ns,
            ratio=total_ns if isinstance(total_ns, Missing) else used_ns / total_ns,
            runs_steps=any(use.runs_steps for use in uses),
            stands=_stands(uses),
        )


def _stands(uses: Iterable[ThreadUse]) -> tuple[Stand, ...]:
    samples: Counter[tuple[str, int, str]] = Counter()
    in_python: Counter[tuple[str, int, str]] = Counter()
    for use in uses:
        if use.file:
            samples[use.file, use.line, use.function] += 1
            in_python[use.file, use.line, use.function] += use.is_in_python
    return tuple(Stand(*place, count, in_python[place]) for place, count in samples.most_common())


def _known_ns(use: ThreadUse) -> int:
    return 0 if isinstance(use.cpu_ns, Missing) else use.cpu_ns


def _cpu_ns(sample: ResourceSample) -> int | Missing:
    if isinstance(sample.user_ns, Missing) or isinstance(sample.system_ns, Missing):
        return NO_CPU_TIME
    return sample.user_ns + sample.system_ns


def _used_ns(sample: _Sample) -> int | Missing:
    return _grown(_cpu_ns(sample.before), _cpu_ns(sample.sample))


def _delay_ns(sample: _Sample) -> int | Missing:
    return _grown(sample.before.run_delay_ns, sample.sample.run_delay_ns)


def _grown(first: int | Missing, last: int | Missing) -> int | Missing:
    if isinstance(first, Missing):
        return first
    return last if isinstance(last, Missing) else max(last - first, 0)


def _summed(amounts: Sequence[int | Missing]) -> int | Missing:
    known = [amount for amount in amounts if not isinstance(amount, Missing)]
    unknown = (amount for amount in amounts if isinstance(amount, Missing))
    return next(unknown, sum(known))


# The first thread, the only one for which the wait for a CPU is recorded.
_FIRST = "MainThread"
# Others that keep less of a CPU busy do not make a thread wait for one.
_OTHERS_CORES = 0.5


@dataclass(frozen=True, slots=True)
class PythonThread:
    """A thread of Python: how many CPUs it kept busy, and where it was seen most often.

    `in_python_ratio` is the share of samples in which it was between two instructions of Python,
    and not within a call.
    """

    name: str
    cores: float
    source: str
    function: str
    in_python_ratio: float


@dataclass(frozen=True, slots=True)
class StepThreads:
    """CPU time by thread while steps ran in the first thread of the process.

    `steps_cores` is the share of time in which that thread ran, `delay_ratio` the share in which it
    was ready to run and had no CPU. `is_alone`: neither other processes nor the hypervisor can have
    used that CPU. `others` are further threads of Python, by CPU time.
    """

    steps_cores: float
    delay_ratio: float
    is_alone: bool
    others: tuple[PythonThread, ...]

    @property
    def had_ratio(self) -> float:
        """Return how much of the CPU time that it wanted the thread of the steps had."""
        wanted = self.steps_cores + self.delay_ratio
        return self.steps_cores / wanted if wanted else 1.0


def step_threads(profile: Profile, process: int) -> StepThreads | Missing:
    """Return what threads of Python used while steps ran, not after the last step."""
    resource_samples = sorted(
        (
            sample
            for sample in profile.resource_samples
            if sample.process == process and not sample.at_exit
        ),
        key=lambda sample: sample.at_ns,
    )
    times = thread_times(_after_first_step(resource_samples))
    if isinstance(times, Missing):
        return times
    if times.unmapped:
        return Missing("its Python cannot identify its own threads (3.7 and later can)")
    python = [group for group in times.groups if group.is_python]
    of_steps = [group for group in python if group.runs_steps]
    if not of_steps:
        return Missing("no resource sample identifies the thread that runs the steps")
    if isinstance(times.run_delay_ns, Missing):
        return times.run_delay_ns
    if len(of_steps) != 1 or of_steps[0].name != _FIRST:
        return Missing("its steps run in other threads than the first")
    return StepThreads(
        steps_cores=of_steps[0].cores,
        delay_ratio=times.run_delay_ns / max(times.watched_ns, 1),
        is_alone=_is_alone(resource_samples),
        others=tuple(_thread(group) for group in python if not group.runs_steps),
    )


def _after_first_step(resource_samples: Sequence[ResourceSample]) -> Sequence[ResourceSample]:
    """Leave out the first step, which traces and compiles, if there are others."""
    later = [resource_sample for resource_sample in resource_samples if resource_sample.steps]
    sampled = [
        resource_sample
        for resource_sample in later
        if isinstance(resource_sample.thread_times, ThreadTimes)
    ]
    return later if len(sampled) > 1 else resource_samples


def _is_alone(resource_samples: Sequence[ResourceSample]) -> bool:
    """Say whether others used next to nothing of the machine's CPUs; False if that is unknown."""
    others = others_cpus(resource_samples)
    return not isinstance(others, Missing) and others < _OTHERS_CORES


def _thread(group: ThreadGroup) -> PythonThread:
    stand = group.stands[0] if group.stands else None
    samples = sum(line.samples for line in group.stands)
    in_python = sum(line.in_python for line in group.stands)
    return PythonThread(
        name=group.name,
        cores=group.cores,
        source="" if stand is None else f"{stand.file}:{stand.line}",
        function="" if stand is None else stand.function,
        in_python_ratio=in_python / samples if samples else 0.0,
    )


def foreign_python_line(profile: Profile, process: int) -> str:
    """Return the most frequent line of Python in threads that TensorFlow started: tf.data's."""
    resource_samples = [sample for sample in profile.resource_samples if sample.process == process]
    times = thread_times(sorted(resource_samples, key=lambda sample: sample.at_ns))
    guests = () if isinstance(times, Missing) else times.guests
    own = [guest for guest in guests if not is_of_library(guest.file)]
    return f"{own[0].file}:{own[0].line}" if own else ""
