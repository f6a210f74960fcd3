"""Sample every process of a job at a bounded rate until the job has ended."""

from __future__ import annotations

import os
import select
import time
from dataclasses import dataclass, field

from tfprobe.attach.sampler.processes import JobInterpreter, JobProcesses
from tfprobe.attach.sampler.pyspy import PySpy
from tfprobe.attach.sampler.stack_file import Chunk, StackFile
from tfprobe.runs.layout import RunFolder

# The time within which a new process or the end of the job is noticed.
POLL_S = 0.2
# Samples per second of one process: reading a deep stack takes 0.7 ms of CPU time.
MOST_RATE_PER_S = 20
# Share of the machine's CPUs, for all readers together.
MOST_CPU_RATIO = 0.01
# Share of one CPU, on a machine with many.
MOST_CPUS = 0.1
# After this time half the rate, after twice as long a quarter, and so on: days of samples stay
# small.
FULL_RATE_S = 1800
# A reader writes when it ends: chunks are short at first, so that a kill loses little early on.
CHUNKS_S = (5, 20, 60)
# Chunks of a process that has no folder yet: one hour of them.
MOST_WAITING = 64
# A starting process cannot be read yet; after three failures it never will be.
ATTEMPTS = 3
RETRY_S = 0.5
# The readers of ended processes have written everything after this time.
LAST_WORDS_S = 3.0


@dataclass(slots=True)
class Target:
    """An interpreter that is being sampled, and its progress."""

    interpreter: JobInterpreter
    began_s: float
    is_replaced: bool = False
    reader: PySpy | None = None
    # The reader that takes over from the current one, and the one before it.
    next_reader: PySpy | None = None
    ending: list[PySpy] = field(default_factory=list)
    chunks: int = 0
    failures: int = 0
    retry_s: float = 0.0
    # Factor by which its rate is reduced because its stacks are expensive to read.
    thrift: float = 1.0
    waiting: list[Chunk | str] = field(default_factory=list)
    file: StackFile | None = None

    @property
    def readers(self) -> list[PySpy]:
        """Return all running readers."""
        running = [self.reader, self.next_reader, *self.ending]
        return [each for each in running if each is not None]


def sample_until_end(run: RunFolder, processes: JobProcesses, program: str) -> None:
    """Write the stacks of each process to its folder; return within seconds of the job's end."""
    sampling = _Sampling(run, processes, program)
    try:
        while sampling.turn():
            sampling.wait(POLL_S)
        sampling.finish()
    finally:
        sampling.kill()


class _Sampling:
    """All targets of a job."""

    def __init__(self, run: RunFolder, processes: JobProcesses, program: str) -> None:
        self._run = run
        self._processes = processes
        self._program = program
        self._targets: list[Target] = []
        self._turns = 0

    def turn(self) -> bool:
        """Do what is due; return False once the job has ended."""
        if not os.path.isdir(self._run.root):
            return False
        self._meet()
        for target in self._targets:
            self._tend(target)
        self._targets = [each for each in self._targets if self._is_kept(each)]
        self._turns += 1
        return bool(self._targets) or self._processes.first_is_running()

    def wait(self, pause_s: float) -> None:
        """Sleep until a reader prints something, but no longer than this."""
        by_descriptor = {
            reader.messages: (target, reader)
            for target in self._targets
            for reader in target.readers
        }
        ready, _, _ = select.select(list(by_descriptor), [], [], pause_s)
        for descriptor in ready:
            target, reader = by_descriptor[descriptor]
            if not reader.listen():
                self._ended(target, reader)

    def finish(self) -> None:
        """Write the samples of the last readers."""
        deadline_s = time.monotonic() + LAST_WORDS_S
        for target in self._targets:
            for reader in target.readers:
                reader.stop()
        while any(each.readers for each in self._targets) and time.monotonic() < deadline_s:
            self.wait(POLL_S)
        for target in self._targets:
            self._write(target)

    def kill(self) -> None:
        """Kill all readers."""
        for target in self._targets:
            for reader in target.readers:
                reader.kill()

    def _meet(self) -> None:
        news = list(self._processes.new_interpreters())
        # Scanning all folders costs more than reading the list of interpreters.
        if self._turns % 5 == 0:
            news += self._processes.new_forks()
        for interpreter in news:
            for target in self._targets:
                if target.interpreter.pid == interpreter.pid:
                    self._end(target)
            self._targets.append(Target(interpreter, time.monotonic()))

    def _end(self, target: Target) -> None:
        """Stop the readers of an interpreter that another one has replaced."""
        target.is_replaced = True
        target.failures = ATTEMPTS
        for reader in target.readers:
            reader.stop()

    def _tend(self, target: Target) -> None:
        for reader in target.readers:
            reader.look_at_threads()
        self._write(target)
        now_s = time.monotonic()
        if target.failures >= ATTEMPTS or not self._processes.is_running(target.interpreter):
            return
        if target.reader is None:
            if now_s >= target.retry_s:
                target.reader = self._start(target)
            return
        if target.next_reader is None:
            since_ns = target.reader.sampling_ns
            length_s = CHUNKS_S[min(target.chunks, len(CHUNKS_S) - 1)]
            if since_ns is not None and time.monotonic_ns() - since_ns > length_s * 1e9:
                target.next_reader = self._start(target)
        elif target.next_reader.sampling_ns is not None:
            self._take_over(target)

    def _take_over(self, target: Target) -> None:
        """Switch to the next reader, and have the previous one write its samples up to here."""
        assert target.reader is not None
        assert target.next_reader is not None
        target.ending.append(target.reader)
        target.reader.stop()
        target.reader, target.next_reader = target.next_reader, None
        target.chunks += 1

    def _start(self, target: Target) -> PySpy | None:
        try:
            return PySpy(self._program, target.interpreter.pid, self._rate_per_s(target))
        except OSError:
            target.failures += 1
            target.retry_s = time.monotonic() + RETRY_S
            return None

    def _rate_per_s(self, target: Target) -> int:
        cpus = len(os.sched_getaffinity(0))
        count = len(self._targets) + self._processes.count_of_others()
        shared = MOST_RATE_PER_S * min(1.0, cpus / (2 * max(count, 1)))
        rate, age_s = shared * target.thrift, time.monotonic() - target.began_s
        while age_s > FULL_RATE_S and rate > 1:
            rate, age_s = rate / 2, age_s / 2
        return max(1, round(rate))

    def _ended(self, target: Target, reader: PySpy) -> None:
        """Collect a reader's samples; start another if it ended by itself before its process."""
        chunk = reader.chunk()
        reader.close()
        target.ending = [each for each in target.ending if each is not reader]
        if target.next_reader is reader:
            target.next_reader = None
        if target.reader is reader:
            target.reader = target.next_reader
            target.next_reader = None
        if isinstance(chunk, str):
            self._failed(target, chunk)
            return
        target.failures = target.failures if target.is_replaced else 0
        target.thrift = _thrift(target.thrift, chunk, len(self._targets))
        target.waiting.append(chunk)

    def _failed(self, target: Target, problem: str) -> None:
        target.failures += 1
        target.retry_s = time.monotonic() + RETRY_S
        is_running = self._processes.is_running(target.interpreter)
        if target.failures == ATTEMPTS and is_running and not target.is_replaced:
            target.waiting.append(problem)

    def _write(self, target: Target) -> None:
        if not target.waiting:
            return
        if target.file is None:
            folder = self._processes.folder_of(target.interpreter)
            if folder is None:
                del target.waiting[:-MOST_WAITING]
                return
            target.file = StackFile(self._run.root, folder.stacks)
        for each in target.waiting:
            if isinstance(each, str):
                target.file.note(time.monotonic_ns(), each)
            else:
                target.file.append(each)
        target.waiting = []

    def _is_kept(self, target: Target) -> bool:
        """Return whether a process still needs work; if not, close its file."""
        if target.readers or self._processes.is_running(target.interpreter):
            return True
        self._write(target)
        if target.file is not None:
            target.file.close()
        return False


def _thrift(before: float, chunk: Chunk, count: int) -> float:
    """Return the factor that reduces a rate so that reading stays within its budget."""
    lasted_ns = max(chunk.end_ns - chunk.start_ns, 1)
    allowed_cpus = min(MOST_CPU_RATIO * len(os.sched_getaffinity(0)), MOST_CPUS) / max(count, 1)
    used_cpus = chunk.cost_ns / lasted_ns
    # The first chunks are short, so the startup cost of a reader weighs heavily in them.
    if lasted_ns < CHUNKS_S[1] * 1e9 or not used_cpus:
        return before
    return min(1.0, max(0.05, before * allowed_cpus / used_cpus))
