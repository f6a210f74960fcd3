"""Let a Dask cluster work on items, one that is there or one of this machine. Knows no question.

Dask is an extra, imported here and only when a cluster is asked for. It gives the items of a worker
that dies to another one. Nothing that it logs reaches the terminal: what of it matters is an error.
"""

from __future__ import annotations

import logging
import signal
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import tfprobe
from tfprobe.errors import UnreadableInput, UsageError
from tfprobe.query.process_pool import Died, cpus, disable_trim, restore_trim

if TYPE_CHECKING:
    from distributed import Client, Future

I = TypeVar("I")  # noqa: E741 - an item, as R is its result
R = TypeVar("R")

LOCAL = "local"
# A scheduler that is there answers in milliseconds.
_CONNECT_S = 10
# How often a look is taken at whether the scheduler is still there.
_LOOK_S = 2
# So much is given out for each thread of the cluster: one item that is worked on, and the next.
_AHEAD = 2
_LOGGERS = ("distributed", "distributed.client", "distributed.core", "tornado", "asyncio", "bokeh")
_SETTINGS = {
    "logging": {"distributed": "critical", "distributed.client": "critical"},
    "distributed.comm.timeouts.connect": f"{_CONNECT_S}s",
    # An item that takes two workers with it is given up, as with processes of our own.
    "distributed.scheduler.allowed-failures": 1,
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Dask cluster: its scheduler's address, or `local` for one of `count` processes here.

    `must_see` are directories that each worker has to see under the same names.
    """

    address: str
    count: int | None = None
    must_see: tuple[str, ...] = ()

    def run(
        self, function: Callable[[I], R], items: Sequence[I]
    ) -> Generator[R | Died, None, None]:
        """Give what `function` makes of each item, in their order.

        Raises UsageError where there is no Dask, no such scheduler, or a worker of it cannot do
        the loop, and UnreadableInput where the cluster is lost meanwhile.
        """
        with _connected(self.address, self.count) as client:
            _check_workers(client, self.address, self.must_see)
            with _keeping_freed(client):
                yield from _results(client, self.address, function, items)


@contextmanager
def _keeping_freed(client: Client) -> Iterator[None]:
    """Let workers keep the memory they free between two items, and give it back at the end.

    Dask lets them give it back at once, which takes a fifth of the time. Others use them after us.
    """
    _let_all(client, disable_trim)
    try:
        yield
    finally:
        if client.status == "running":
            _let_all(client, restore_trim)


def _let_all(client: Client, function: Callable[[], None]) -> None:
    """Run a function on each worker that is there; nothing hangs on it."""
    # Of a cluster that is lost who waits for results tells.
    with suppress(OSError):
        client.run(function, on_error="ignore")


def _results(
    client: Client, address: str, function: Callable[[I], R], items: Sequence[I]
) -> Iterator[R | Died]:
    """Give the results in order, with so much given out that nobody waits and no memory fills.

    Dask blames a dead worker's end on all that it held. So what was blamed is given out once more
    when all others are done, alone.
    """
    waiting, blamed = deque(range(len(items))), deque[int]()
    given: dict[Future, int] = {}
    found: dict[int, R | Died] = {}
    most, is_alone = _AHEAD * max(sum(client.nthreads().values()), 1), False
    for number in range(len(items)):
        while number not in found:
            if not waiting and not given:
                waiting, blamed, most, is_alone = blamed, deque(), 1, True
            while waiting and len(given) < most:
                at = waiting.popleft()
                # Not pure: two questions about one shard are two answers, however alike they look.
                given[client.submit(function, items[at], pure=False)] = at
            for future in _ended(client, address, list(given)):
                at, result = given.pop(future), _result(future, address)
                if isinstance(result, Died) and not is_alone:
                    blamed.append(at)
                else:
                    found[at] = result
        yield found.pop(number)


def _ended(client: Client, address: str, futures: list[Future]) -> list[Future]:
    """Wait until some have ended, and return them."""
    from distributed import wait

    while True:
        if client.status != "running":
            raise _lost(address)
        try:
            return list(wait(futures, timeout=_LOOK_S, return_when="FIRST_COMPLETED").done)
        except TimeoutError:
            continue
        except CancelledError as exc:  # Dask's is a kind of it
            raise _lost(address) from exc


# Any: the result of whatever function it is.
def _result(future: Future, address: str) -> Any:
    from distributed import KilledWorker

    try:
        return future.result()
    except CancelledError as exc:
        raise _lost(address) from exc
    except KilledWorker:
        return Died("two workers of the cluster that worked on it died")


def _lost(address: str) -> UnreadableInput:
    hint = "Ask again; what was read is kept."
    return UnreadableInput(f"The Dask cluster at {address} was lost meanwhile.", hint=hint)


@contextmanager
def _connected(address: str, count: int | None) -> Iterator[Client]:
    """Connect to a cluster, or make one, and end what was made."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as exc:
        hint = "Install it with `pip install 'tfprobe[dask]'`, here and where the workers are."
        raise UsageError("--dask needs dask.distributed, which is not here.", hint=hint) from exc
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stack.enter_context(dask.config.set(_SETTINGS))
        _silence()
        wanted: str | LocalCluster = address
        if address == LOCAL:
            # Of its own choice Dask leaves a directory behind.
            place = stack.enter_context(TemporaryDirectory(prefix="tfprobe-dask-"))
            stack.enter_context(dask.config.set({"temporary-directory": place}))
            with _without_interrupts():
                wanted = LocalCluster(
                    n_workers=count or cpus(),
                    threads_per_worker=1,
                    dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                )
            stack.enter_context(wanted)
        try:
            client = stack.enter_context(Client(wanted, timeout=_CONNECT_S))
        except (OSError, TimeoutError, ValueError) as exc:
            raise UsageError(
                f"No Dask scheduler answers at {address}: {_first_line(exc)}",
                hint="Name one as in `--dask tcp://HOST:8786`, or use `--dask local`.",
            ) from exc
        yield client


def _silence() -> None:
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Let processes that start here leave Ctrl-C to the command, which ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _check_workers(client: Client, address: str, must_see: Sequence[str]) -> None:
    """Make sure that all workers are of this version and see the directories."""
    try:
        client.wait_for_workers(1, timeout=_CONNECT_S)
    except TimeoutError as exc:
        hint = f"Start some with `dask worker {address}`."
        raise UsageError(f"The Dask scheduler at {address} has no workers.", hint=hint) from exc
    answers = client.run(_probe(tuple(must_see)), on_error="return")
    wrong = {worker: _what_is_wrong(answer) for worker, answer in answers.items()}
    for worker, (problem, hint) in wrong.items():
        if problem:
            raise UsageError(f"Worker {worker} of the Dask cluster {problem}.", hint=hint)


def _probe(must_see: tuple[str, ...]) -> Callable[[], tuple[str | None, list[str]]]:
    """Return what a worker is asked; made here, so that it travels itself and not by its name."""

    def probe() -> tuple[str | None, list[str]]:
        import os

        try:
            import tfprobe as found
        except ImportError:
            return None, []
        return found.__version__, [path for path in must_see if not os.path.isdir(path)]

    return probe


# Any: what the probe returns, or the exception that came of it.
def _what_is_wrong(answer: Any) -> tuple[str, str]:
    """Return what is wrong with a worker, and what to do; nothing where it can do the loop."""
    if isinstance(answer, BaseException):
        return f"cannot be asked ({_first_line(answer)})", "Has it another version of Dask?"
    version, unseen = answer
    hint = "Workers need the tfprobe of the one who asks."
    if version is None:
        return "has no tfprobe", hint
    if version != tfprobe.__version__:
        return f"has tfprobe {version}, and this is {tfprobe.__version__}", hint
    if unseen:
        hint = "Workers read recordings themselves: use a file system that all of them share."
        return f"does not see {unseen[0]}", hint
    return "", ""


def _first_line(exc: BaseException) -> str:
    return (str(exc).strip().splitlines() or [type(exc).__name__])[0]
