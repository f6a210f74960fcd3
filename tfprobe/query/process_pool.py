"""Run a function on items in processes of this machine, which may die of an item."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, Protocol, TypeVar, cast

from tfprobe.errors import UnreadableInput


def cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


class Runner(Protocol):
    """What runs a function on items: this process, a pool of processes, or a Dask cluster."""

    def run(
        self, function: Callable[[I], R], items: Sequence[I]
    ) -> Generator[R | Died, None, None]:
        """Yield the result of `function`, which must be one of a module, for each item in order."""


@dataclass(frozen=True, slots=True)
class Here:
    """This process."""

    def run(
        self, function: Callable[[I], R], items: Sequence[I]
    ) -> Generator[R | Died, None, None]:
        """Yield the result of `function` for each item, one after the other."""
        if len(items) > 1:
            disable_trim()
        yield from map(function, items)


@dataclass(frozen=True, slots=True)
class LocalProcesses:
    """At most `count` processes of this machine."""

    count: int

    def run(
        self, function: Callable[[I], R], items: Sequence[I]
    ) -> Generator[R | Died, None, None]:
        """Yield the result of `function` for each item; the processes end with the iteration.

        Raises UnreadableInput when no process can be started.
        """
        pool: ProcessPool[I, R] = ProcessPool(function, min(self.count, len(items)))
        try:
            yield from pool.work(items)
        finally:
            pool.end()


I = TypeVar("I")  # noqa: E741 - an item, as R is its result
R = TypeVar("R")

# One that dies before it has begun died of no item. So many in a row, and none will ever begin.
_MOST_STILLBORN = 3
# What a process gets to end by itself before it is killed.
_PATIENCE_S = 2.0
# As in the command itself: millions of objects, and next to no cycles.
_OBJECTS_BETWEEN_COLLECTIONS = 100_000


@dataclass(frozen=True, slots=True)
class Died:
    """Stand in for the result of an item whose workers died."""

    reason: str


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    has_begun: bool = False
    item: int | None = None


@dataclass(slots=True)
class _Progress:
    """Numbers of items: those that wait, and those that have killed one worker."""

    waiting: deque[int]
    again: deque[int] = field(default_factory=deque)


class ProcessPool(Generic[I, R]):
    """Processes that run one function. Whoever creates the pool ends it."""

    def __init__(self, function: Callable[[I], R], count: int) -> None:
        """Start no process yet; the other processes find `function` by its name."""
        self._function = function
        self._count = count
        # Not fork: a copy of a process with threads may hold a lock that nobody will release, and
        # would keep open the pipes of all others, which then never end.
        self._start_method = multiprocessing.get_context("spawn")
        self._workers: dict[Connection, _Worker] = {}
        self._stillborn = 0

    def work(self, items: Sequence[I]) -> Iterator[R | Died]:
        """Yield the results in the order of the items.

        An item whose worker dies is given out once more when all others are done, alone.
        """
        progress = _Progress(deque(range(len(items))))
        found: dict[int, R | Died] = {}
        for number in range(len(items)):
            while number not in found:
                self._give_out(items, progress)
                self._receive(progress, found)
            yield found.pop(number)

    def end(self) -> None:
        """End all processes, including busy ones."""
        for connection in self._workers:
            connection.close()
        for worker in self._workers.values():
            worker.process.terminate()
        for worker in self._workers.values():
            worker.process.join(_PATIENCE_S)
            if worker.process.exitcode is None:
                worker.process.kill()
                worker.process.join()
        self._workers.clear()

    def _give_out(self, items: Sequence[I], progress: _Progress) -> None:
        """Give each idle process an item, as long as there are some."""
        while len(self._workers) < min(self._count, len(progress.waiting)):
            self._start()
        for connection, worker in tuple(self._workers.items()):
            if not worker.has_begun or worker.item is not None:
                continue
            if progress.waiting:
                self._give(connection, worker, progress.waiting.popleft(), items)
            elif progress.again and not self._are_busy():
                self._give(connection, worker, progress.again[0], items)
        if progress.again and not self._workers:
            self._start()

    def _are_busy(self) -> bool:
        return any(worker.item is not None for worker in self._workers.values())

    def _give(
        self, connection: Connection, worker: _Worker, number: int, items: Sequence[I]
    ) -> None:
        worker.item = number
        try:
            connection.send(items[number])
        except OSError:
            pass  # it has died; its pipe tells when it is read

    def _receive(self, progress: _Progress, found: dict[int, R | Died]) -> None:
        """Wait until a process sends a result or dies."""
        for connection in cast("list[Connection]", wait(list(self._workers))):
            worker = self._workers[connection]
            try:
                result = connection.recv()
            except (EOFError, OSError):
                self._bury(connection, progress, found)
                continue
            if not worker.has_begun:
                worker.has_begun, self._stillborn = True, 0
            elif worker.item is not None:
                if progress.again and progress.again[0] == worker.item:
                    progress.again.popleft()
                found[worker.item], worker.item = result, None

    def _bury(
        self, connection: Connection, progress: _Progress, found: dict[int, R | Died]
    ) -> None:
        worker = self._workers.pop(connection)
        connection.close()
        worker.process.join()
        if not worker.has_begun:
            self._count_stillborn(worker)
        elif worker.item is None:
            return
        elif progress.again and progress.again[0] == worker.item:
            progress.again.popleft()
            found[worker.item] = Died(
                f"two processes that worked on it died, the last one {_how(worker.process)}"
            )
        else:
            progress.again.append(worker.item)

    def _count_stillborn(self, worker: _Worker) -> None:
        self._stillborn += 1
        if self._stillborn >= _MOST_STILLBORN:
            raise UnreadableInput(
                f"Processes that should read this run die at their start, {_how(worker.process)}.",
                hint="Use `--workers 1`, which reads in the command itself.",
            )

    def _start(self) -> None:
        ours, theirs = self._start_method.Pipe()
        process = self._start_method.Process(
            target=_work, args=(theirs, self._function), daemon=True
        )
        # Ctrl-C reaches all processes of a terminal: from its first moment a worker leaves it to
        # the command, which ends it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
            self._workers[ours] = _Worker(process)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()


# Any: a function of a module, its items and results.
def _work(connection: Connection, function: Callable[[Any], Any]) -> None:
    """Run the function on items until the pipe is closed: then nobody waits for results."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    disable_trim()
    result = None
    while _tell(connection, result):
        try:
            item = connection.recv()
        except (EOFError, ConnectionError):
            return
        result = function(item)


def _tell(connection: Connection, result: object) -> bool:
    try:
        connection.send(result)
    except ConnectionError:
        return False
    return True


def _how(process: BaseProcess) -> str:
    code = process.exitcode
    if code is None or code >= 0:
        return f"with status {code}"
    how = f"by signal {-code}"
    if -code == signal.SIGKILL:
        how += ", as when memory runs out"
    return how


# The parameters of mallopt(3), and what they are set to: as much as one shard frees, and the
# most that glibc takes for the size from which on each piece is mapped by itself.
_TRIM_THRESHOLD, _TRIM_BYTES = -1, 256 << 20
_MMAP_THRESHOLD, _MMAP_BYTES = -3, 32 << 20
# What Dask asks for in its workers, and what glibc begins with.
_DASKS_TRIM_BYTES = 64 << 10
_USUAL_MMAP_BYTES = 128 << 10


def disable_trim() -> None:
    """Let the C library keep freed memory, if it is glibc.

    Columns are large and short-lived. Without this, the system has to fill the pages of each one
    with zeros first, which takes about a tenth of the time.
    """
    _set(_TRIM_BYTES, _MMAP_BYTES)


def restore_trim() -> None:
    """Free the memory that a Dask worker has kept, and restore the settings of Dask."""
    _set(_DASKS_TRIM_BYTES, _USUAL_MMAP_BYTES)
    with contextlib.suppress(OSError, AttributeError):  # as in _set
        ctypes.CDLL(None).malloc_trim(0)


def _set(trim_bytes: int, mmap_bytes: int) -> None:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not of glibc
        return
    mallopt(_TRIM_THRESHOLD, trim_bytes)
    mallopt(_MMAP_THRESHOLD, mmap_bytes)
