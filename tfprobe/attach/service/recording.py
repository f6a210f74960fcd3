"""Record several services at the same time, and for longer until there are steps enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tfprobe.attach.service.client import ANSWER_S, Address, ProfileRequest, ServiceClient
from tfprobe.attach.service.directory import ServiceRecording
from tfprobe.attach.service.exchange import ExchangeFolder
from tfprobe.errors import NoAnswer, UnreadableInput

# The first recording lasts so long per requested step, within these bounds: most steps take 1 ms
# to 1 s, and each recording costs the service about 0.1 s.
_FIRST_LOOK_OF_A_STEP_S = 0.02
_LEAST_LOOK_S, _MOST_LOOK_S = 0.1, 1.0
# A step at either end is cut off; and steps differ.
_CUT_OFF = 2
_MARGIN = 1.25
# Steps that were seen say how long is long enough; while there was none, this many times longer.
_LONGER = 4.0
_LEAST_LONGER = 2.0
_SHORTEST_S = 0.001


@dataclass(frozen=True, slots=True)
class WantedSteps:
    """How much to record: so many steps in at most so long, or for so long."""

    steps: int | None
    duration_s: float


def record(
    services: Sequence[Address],
    wanted: WantedSteps,
    exchange: ExchangeFolder,
    *,
    count_steps: Callable[[bytes], int],
    watch: Callable[[float], None] = lambda _duration_s: None,
    answer_s: float = ANSWER_S,
) -> tuple[ServiceRecording, ...]:
    """Return a recording of each service: the first with enough steps, else that with most.

    `count_steps` returns how many whole steps an XSpace has; `watch` is called with the duration
    of each recording.

    Raises UnreadableInput where a service is not there or goes away, NoAnswer where one refuses,
    and where nothing ran, or no step of those wanted was seen.
    """
    with ExitStack() as opened:
        clients = [ServiceClient(service, answer_s=answer_s) for service in services]
        for client in clients:
            opened.callback(client.close)
        if wanted.steps is None:
            watch(wanted.duration_s)
            found = _round(clients, 0, wanted.duration_s, exchange, count_steps)
            return _with_events(services, found, wanted)
        return _until(clients, wanted, wanted.steps, exchange, count_steps, watch)


def _until(
    clients: Sequence[ServiceClient],
    wanted: WantedSteps,
    steps: int,
    exchange: ExchangeFolder,
    count_steps: Callable[[bytes], int],
    watch: Callable[[float], None],
) -> tuple[ServiceRecording, ...]:
    addresses = [client.address for client in clients]
    best: Sequence[ServiceRecording | None] = [None] * len(clients)
    first_s = min(max(steps * _FIRST_LOOK_OF_A_STEP_S, _LEAST_LOOK_S), _MOST_LOOK_S)
    duration_s = min(first_s, wanted.duration_s)
    left_s, number = wanted.duration_s, 0
    while duration_s >= _SHORTEST_S:
        watch(duration_s)
        found = _round(clients, number, duration_s, exchange, count_steps)
        if _least(found) >= _least(best):
            best = found
        if _least(best) >= steps:
            break
        left_s, number = left_s - duration_s, number + 1
        if left_s <= duration_s:
            break  # what is left would hold fewer
        duration_s = min(longer_s(duration_s, _least(found), steps), left_s)
    kept = _with_events(addresses, best, wanted)
    for each in kept:
        if not each.steps:
            raise _no_step(each.address, wanted)
    return kept


def longer_s(duration_s: float, seen: int, wanted: int) -> float:
    """Return for how long to record after so many whole steps were seen in `duration_s`."""
    if not seen:
        return duration_s * _LONGER
    needed_s = duration_s * (wanted + _CUT_OFF) / seen * _MARGIN
    return max(needed_s, duration_s * _LEAST_LONGER)


def _round(
    clients: Sequence[ServiceClient],
    number: int,
    duration_s: float,
    exchange: ExchangeFolder,
    count_steps: Callable[[bytes], int],
) -> list[ServiceRecording | None]:
    """Record all at the same time; None for one in which nothing ran."""
    started_unix_ns = time.time_ns()
    requests = [
        ProfileRequest(f"{number}-{at}", duration_s, exchange) for at in range(len(clients))
    ]
    waits = [client.begin(request) for client, request in zip(clients, requests, strict=True)]
    contents = [wait() for wait in waits]
    return [
        None
        if content is None
        else _recording(client.address, started_unix_ns, duration_s, content, count_steps)
        for client, content in zip(clients, contents, strict=True)
    ]


def _recording(
    address: Address,
    started_unix_ns: int,
    duration_s: float,
    content: bytes,
    count_steps: Callable[[bytes], int],
) -> ServiceRecording:
    try:
        steps = count_steps(content)
    except UnreadableInput as exc:
        said = f"What {address} sent is not a trace: {exc.problem}."
        raise UnreadableInput(said, hint="Is it TensorFlow's profiler service?") from exc
    return ServiceRecording(address, started_unix_ns, round(duration_s * 10**9), content, steps)


def _least(found: Sequence[ServiceRecording | None]) -> int:
    """Return the steps of the service with the fewest."""
    return min(0 if each is None else each.steps for each in found)


def _with_events(
    addresses: Sequence[Address], found: Sequence[ServiceRecording | None], wanted: WantedSteps
) -> tuple[ServiceRecording, ...]:
    for address, each in zip(addresses, found, strict=True):
        if each is None:
            raise NoAnswer(
                f"{address} recorded nothing: its job ran no op in {wanted.duration_s:g} s.",
                hint="Record while the job is active, or for longer.",
            )
    return tuple(each for each in found if each is not None)


def _no_step(address: Address, wanted: WantedSteps) -> NoAnswer:
    return NoAnswer(
        f"{address} is active, but no whole step was seen in {wanted.duration_s:g} s: a step "
        "is one that the program marks (tf.profiler.experimental.Trace, as Keras does), a run of a "
        "Session, or a call of a tf.function.",
        hint="If steps take longer, allow more time with --timeout; otherwise, record without "
        "steps, with --duration.",
    )
