"""Sum up calls of the driver and its runtime, and how kernels follow their launches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.core.copies import matching
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Executions, Place, SpanKind, Spans
from tfprobe.profile.profile import Profile
from tfprobe.profile.tables import Int64s

DRIVER_KINDS = (SpanKind.RUNTIME, SpanKind.LAUNCH, SpanKind.COPY_CALL, SpanKind.SYNC)
NOT_SAMPLED = Missing("no step was traced")
NO_ACCELERATOR = Missing(
    "no driver call in the captures: no accelerator, or the tracer had no access to it (CUPTI)"
)
NOT_RECORDED = Missing(
    "kernels ran, but these captures have no driver calls: RunMetadata and timelines never do"
)
NO_LAUNCH = Missing("no call in the captures launches a kernel")
NO_CORRELATION = Missing("the captures do not link kernels to the calls that launched them")


@dataclass(frozen=True, slots=True)
class RuntimeCalls:
    """All calls of one name. Times are those inside the call, in ns."""

    kind: SpanKind
    name: str
    count: int
    count_per_step: float
    total_ns: int
    mean_ns: float
    max_ns: int


@dataclass(frozen=True, slots=True)
class ShortKernels:
    """Kernels of one name that ran for less time than the calls that launched them."""

    name: str
    count: int
    mean_kernel_ns: float
    mean_call_ns: float


@dataclass(frozen=True, slots=True)
class KernelLaunches:
    """How kernels follow the calls that launch them; `matched` calls have known kernels.

    The delay goes from the end of the call to the start of its first kernel: the time in the queue
    behind other kernels. It is 0 where the kernel started before the call returned. A launch is
    short where its kernels take less time than the call. Both are defined as in Holistic Trace
    Analysis, "CUDA kernel launch statistics", where the delay may be negative.
    """

    count: int
    per_step: float
    total_ns: int
    matched: int
    mean_delay_ns: float | Missing
    p50_delay_ns: float | Missing
    p95_delay_ns: float | Missing
    max_delay_ns: int | Missing
    short: int | Missing
    short_ratio: float | Missing
    short_kernels: tuple[ShortKernels, ...]


@dataclass(frozen=True, slots=True)
class Runtime:
    """The driver calls of traced steps; `steps` have any. Longest total first."""

    steps: int
    calls: tuple[RuntimeCalls, ...]
    launches: KernelLaunches | Missing

    def total_ns(self, kind: SpanKind) -> int:
        """Return the total time of the calls of a kind."""
        return sum(call.total_ns for call in self.calls if call.kind == kind)

    def count(self, kind: SpanKind) -> int:
        """Return the number of calls of a kind."""
        return sum(call.count for call in self.calls if call.kind == kind)


def runtime(profile: Profile) -> Runtime | Missing:
    """Return the driver calls, or why none are known."""
    calls = profile.spans.only(np.isin(profile.spans.kind, DRIVER_KINDS))
    if not profile.captures:
        return NOT_SAMPLED
    if not len(calls):
        return NOT_RECORDED if _has_kernels(profile.executions) else NO_ACCELERATOR
    steps = len(np.unique(calls.capture))
    table = sorted(_calls(calls, steps), key=lambda call: (-call.total_ns, call.name))
    return Runtime(steps, tuple(table), _launches(calls, profile.executions, steps))


def _has_kernels(rows: Executions) -> bool:
    return bool((rows.place != Place.HOST).any())


def _calls(calls: Spans, steps: int) -> Iterator[RuntimeCalls]:
    # One number for kind and name, so that a single pass over the rows counts all.
    key = calls.name.astype(np.int64) * len(SpanKind) + calls.kind
    keys, group = np.unique(key, return_inverse=True)
    count = np.bincount(group, minlength=len(keys))
    total_ns = _sums(group, calls.duration_ns, len(keys))
    max_ns = np.zeros(len(keys), dtype=np.int64)
    np.maximum.at(max_ns, group, calls.duration_ns)
    for index, number in enumerate(keys.tolist()):
        yield RuntimeCalls(
            kind=SpanKind(number % len(SpanKind)),
            name=calls.strings[number // len(SpanKind)],
            count=int(count[index]),
            count_per_step=int(count[index]) / steps,
            total_ns=int(total_ns[index]),
            mean_ns=int(total_ns[index]) / int(count[index]),
            max_ns=int(max_ns[index]),
        )


def _launches(calls: Spans, rows: Executions, steps: int) -> KernelLaunches | Missing:
    launches = calls.only(calls.kind == SpanKind.LAUNCH)
    if not len(launches):
        return NO_LAUNCH
    kernels = rows.only((rows.place == Place.ACCELERATOR) & (rows.correlation != 0))
    call, kernel = _matched(launches, kernels)
    delay_ns, is_short = _followed(launches, kernels, call, kernel)
    matched = len(delay_ns)
    p50, p95 = np.percentile(delay_ns, [50, 95]) if matched else (0.0, 0.0)
    return KernelLaunches(
        count=len(launches),
        per_step=len(launches) / steps,
        total_ns=int(launches.duration_ns.sum()),
        matched=matched,
        mean_delay_ns=float(delay_ns.mean()) if matched else NO_CORRELATION,
        p50_delay_ns=float(p50) if matched else NO_CORRELATION,
        p95_delay_ns=float(p95) if matched else NO_CORRELATION,
        max_delay_ns=int(delay_ns.max()) if matched else NO_CORRELATION,
        short=int(is_short.sum()) if matched else NO_CORRELATION,
        short_ratio=int(is_short.sum()) / matched if matched else NO_CORRELATION,
        short_kernels=_short_kernels(launches, kernels, call, kernel, is_short),
    )


def _matched(launches: Spans, kernels: Executions) -> tuple[Int64s, Int64s]:
    """Return pairs of rows, a call and a kernel it launched; a graph's launch has many kernels."""
    call = matching(kernels.capture, kernels.correlation, launches.capture, launches.correlation)
    kernel = np.flatnonzero(call >= 0)
    return call[kernel], kernel


def _followed(
    launches: Spans, kernels: Executions, call: Int64s, kernel: Int64s
) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """Return for each call with known kernels the delay of the first, and whether it is short."""
    matched, group = np.unique(call, return_inverse=True)
    first_ns = np.full(len(matched), np.iinfo(np.int64).max)
    np.minimum.at(first_ns, group, kernels.start_ns[kernel])
    ran_ns = _sums(group, kernels.duration_ns[kernel], len(matched))
    ended_ns = launches.start_ns[matched] + launches.duration_ns[matched]
    return np.maximum(first_ns - ended_ns, 0), ran_ns < launches.duration_ns[matched]


def _short_kernels(
    launches: Spans,
    kernels: Executions,
    call: Int64s,
    kernel: Int64s,
    is_short: npt.NDArray[np.bool_],
) -> tuple[ShortKernels, ...]:
    """Return the kernels of short launches by name, the most frequent first."""
    _, group = np.unique(call, return_inverse=True)
    chosen = is_short[group]
    call, kernel = call[chosen], kernel[chosen]
    detail = kernels.detail[kernel]
    name = np.where(detail != 0, detail, kernels.name[kernel])
    names, at = np.unique(name, return_inverse=True)
    count = np.bincount(at, minlength=len(names))
    kernel_ns = _sums(at, kernels.duration_ns[kernel], len(names))
    call_ns = _sums(at, launches.duration_ns[call], len(names))
    short = [
        ShortKernels(kernels.strings[name], int(n), int(ran) / int(n), int(called) / int(n))
        for name, n, ran, called in zip(names.tolist(), count, kernel_ns, call_ns, strict=True)
    ]
    return tuple(sorted(short, key=lambda kernel: (-kernel.count, kernel.name)))


def _sums(group: npt.NDArray[np.intp], amount: Int64s, groups: int) -> Int64s:
    sums = np.zeros(groups, dtype=np.int64)
    np.add.at(sums, group, amount)
    return sums
