"""Say which threads of a process used its CPU time, and where those that ran Python stood."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tfprobe.errors import Missing
from tfprobe.profile.activities import ResourceSample, ThreadTimes, ThreadUse

NOT_TAKEN = Missing("no sample has CPU times of threads")
ONE_SAMPLE = Missing("one sample does not give CPU times of threads")
NO_CPU_TIME = Missing("the CPU time of the process is unknown")
UNNAMED = "(not named)"


@dataclass(frozen=True, slots=True)
class Stand:
    """A place in which a thread stood: `samples` of them, `in_python` between two instructions."""

    file: str
    line: int
    function: str
    samples: int
    in_python: int


@dataclass(frozen=True, slots=True)
class ThreadGroup:
    """Threads of one name: a thread of Python, or those of a pool that the kernel knows by a name.

    `threads` is the most there were at once, `cores` how many CPUs they kept busy, `ratio` their
    part of the CPU time of the process. `stands` are the places in which it stood, most often
    first; none is told of threads that run steps.
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
    """The CPU time of a process by thread, from the first of some samples to the last.

    `cpu_ns` is that of the process, `ended_ns` what of it no group has: threads that had ended.
    `guests` are places of Python in threads that Python did not start, `unmapped` how many threads
    of Python are among the others. `run_delay_ns` is that of the first thread in the same time.
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
    """A pulse with the time of threads, that of the one before, and what was told of the time
    between them."""

    before: ResourceSample
    resource_sample: ResourceSample
    since_ns: int
    times: ThreadTimes


def thread_times(resource_samples: Sequence[ResourceSample]) -> ProcessThreads | Missing:
    """Return the CPU time of a process's threads by its pulses, which are in order."""
    told = [
        resource_sample
        for resource_sample in resource_samples
        if isinstance(resource_sample.thread_times, ThreadTimes)
    ]
    samples = tuple(_samples(told))
    if not told:
        reasons = (sample.thread_times for sample in resource_samples)
        return next((reason for reason in reasons if isinstance(reason, Missing)), NOT_TAKEN)
    if not samples:
        return ONE_SAMPLE
    watched_ns = sum(sample.resource_sample.at_ns - sample.since_ns for sample in samples)
    cpu_ns = _summed([_used_ns(sample) for sample in samples])
    groups = tuple(_groups(samples, max(watched_ns, 1), cpu_ns))
    told_ns = sum(group.cpu_ns for group in groups)
    return ProcessThreads(
        samples=len(samples),
        watched_ns=watched_ns,
        cpu_ns=cpu_ns,
        groups=groups,
        ended_ns=cpu_ns if isinstance(cpu_ns, Missing) else max(cpu_ns - told_ns, 0),
        guests=_stands(
            use
            for sample in samples
            for use in sample.times.threads
            if isinstance(use.cpu_ns, Missing)
        ),
        unmapped=max(sample.times.unmapped for sample in samples),
        run_delay_ns=_summed([_delay_ns(sample) for sample in samples]),
    )


def _samples(told: Sequence[ResourceSample]) -> Iterator[_Sample]:
    for before, resource_sample in pairwise(told):
        times = resource_sample.thread_times
        if isinstance(times, Missing) or isinstance(times.since_ns, Missing):
            continue
        if times.since_ns < resource_sample.at_ns:
            yield _Sample(before, resource_sample, times.since_ns, times)


def _groups(
    samples: Sequence[_Sample], watched_ns: int, cpu_ns: int | Missing
) -> Iterator[ThreadGroup]:
    """Give the groups, those that used most first."""
    found: dict[tuple[bool, str], list[ThreadUse]] = {}
    most: Counter[tuple[bool, str]] = Counter()
    for sample in samples:
        there: Counter[tuple[bool, str]] = Counter()
        for use in sample.times.threads:
            if not isinstance(use.cpu_ns, Missing):
                key = (use.is_python, use.name)
                found.setdefault(key, []).append(use)
                there[key] += use.count
        most |= there
    sums_ns = {key: sum(map(_known_ns, uses)) for key, uses in found.items()}
    # The clocks of threads are finer than that of the process.
    whole_ns = cpu_ns if isinstance(cpu_ns, Missing) else max(cpu_ns, sum(sums_ns.values()), 1)
    for key in sorted(found, key=lambda key: (-sums_ns[key], key)):
        is_python, name = key
        uses, used_ns = found[key], sums_ns[key]
        yield ThreadGroup(
            name=name or UNNAMED,
            is_python=is_python,
            threads=most[key],
            cpu_ns=used_ns,
            cores=used_ns / watched_ns,
            ratio=whole_ns if isinstance(whole_ns, Missing) else used_ns / whole_ns,
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


def _cpu_ns(resource_sample: ResourceSample) -> int | Missing:
    if isinstance(resource_sample.user_ns, Missing) or isinstance(
        resource_sample.system_ns, Missing
    ):
        return NO_CPU_TIME
    return resource_sample.user_ns + resource_sample.system_ns


def _used_ns(sample: _Sample) -> int | Missing:
    return _grown(_cpu_ns(sample.before), _cpu_ns(sample.resource_sample))


def _delay_ns(sample: _Sample) -> int | Missing:
    return _grown(sample.before.run_delay_ns, sample.resource_sample.run_delay_ns)


def _grown(first: int | Missing, last: int | Missing) -> int | Missing:
    if isinstance(first, Missing):
        return first
    return last if isinstance(last, Missing) else max(last - first, 0)


def _summed(amounts: Sequence[int | Missing]) -> int | Missing:
    known = [amount for amount in amounts if not isinstance(amount, Missing)]
    untold = (amount for amount in amounts if isinstance(amount, Missing))
    return next(untold, sum(known))
