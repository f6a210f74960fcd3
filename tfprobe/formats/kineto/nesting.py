"""Find what each op of a trace ran in: the op that called it, its module, and its stack of Python.

Boxes of a thread nest: functions of Python, modules among them, annotations, and ops. Ops of the
backward pass belong where the op was called that they differentiate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tfprobe.formats.kineto.events import Kind, KinetoEvents
from tfprobe.formats.kineto.scopes import Places
from tfprobe.profile.tables import Flags, Int64s

_EVALUATES = "autograd::engine::evaluate_function"
NONE = -1


class OpNesting(NamedTuple):
    """Where ops are; all columns have one row per box, and say nothing of boxes that are no ops.

    `parent` is the op that called it, -1 for none; `nested_ns` the time in ops that it called.
    `scope` and `stack` are numbers of Places. `is_backward` marks ops of the backward pass. `link`
    is a number that an op shares with the outermost op that differentiates it, 0 for none.
    `order` has the boxes that are ops, by thread and start.
    """

    parent: Int64s
    nested_ns: Int64s
    scope: Int64s
    stack: Int64s
    is_backward: Flags
    link: Int64s
    order: Int64s


class _Open(NamedTuple):
    """A box around others: its end, and where what it contains is.

    `op` is the innermost op. `link` is the op of the forward pass that ops in it differentiate, and
    `is_linked` whether they belong to that op's place.
    """

    end_ns: int
    op: int
    scope: int
    stack: int
    link: int
    is_linked: bool
    is_backward: bool


def nest(events: KinetoEvents, places: Places) -> OpNesting:
    """Return where each op is."""
    count = len(events.kind)
    parent = np.full(count, NONE, dtype=np.int64)
    nested_ns, scope, stack = (np.zeros(count, dtype=np.int64) for _ in range(3))
    link = np.full(count, NONE, dtype=np.int64)
    is_backward = np.zeros(count, dtype=np.bool_)
    order: list[int] = []
    forward_of = _forward_ops(events)
    evaluates = np.array([text.startswith(_EVALUATES) for text in events.texts], dtype=np.bool_)
    is_evaluation = evaluates[events.name] if count else np.zeros(0, dtype=np.bool_)
    for rows in _by_lane(events):
        starts = events.start_ns[rows].tolist()
        ends = (events.start_ns[rows] + events.duration_ns[rows]).tolist()
        kinds, names = events.kind[rows].tolist(), events.name[rows].tolist()
        evaluating = is_evaluation[rows].tolist()
        outermost = _Open(2**62, NONE, 0, 0, NONE, is_linked=False, is_backward=False)
        around = [outermost]
        for at, box in enumerate(rows.tolist()):
            start_ns = starts[at]
            while around[-1].end_ns <= start_ns and len(around) > 1:
                around.pop()
            outer = around[-1]
            end_ns = min(ends[at], outer.end_ns)
            kind = kinds[at]
            if kind == Kind.OP:
                order.append(box)
                parent[box] = outer.op
                if outer.op != NONE:
                    nested_ns[outer.op] += end_ns - start_ns
                own = forward_of.get(box, NONE)
                linked = own != NONE or outer.is_linked
                backward = outer.is_backward or own != NONE or evaluating[at]
                inner = _Open(
                    end_ns,
                    box,
                    outer.scope,
                    outer.stack,
                    outer.link if own == NONE else own,
                    linked,
                    backward,
                )
                scope[box], stack[box], is_backward[box] = inner.scope, inner.stack, backward
                if linked:
                    link[box] = inner.link
                around.append(inner)
            elif kind == Kind.FRAME:
                module, frame = places.frame(names[at])
                if module is not None:
                    around.append(
                        outer._replace(
                            end_ns=end_ns,
                            scope=places.in_module(outer.scope, module),
                            # What is computed again for the backward pass has its own place.
                            is_linked=False,
                        )
                    )
                elif frame is not None:
                    around.append(
                        outer._replace(end_ns=end_ns, stack=places.called(outer.stack, frame))
                    )
            else:
                around.append(
                    outer._replace(
                        end_ns=end_ns, scope=places.in_annotation(outer.scope, names[at])
                    )
                )
    shared = np.zeros(count, dtype=np.int64)
    for number, (backward_op, forward_op) in enumerate(sorted(forward_of.items()), start=1):
        if parent[backward_op] == NONE or forward_of.get(int(parent[backward_op])) != forward_op:
            shared[forward_op] = shared[backward_op] = number
    linked_rows = np.flatnonzero(link != NONE)
    scope[linked_rows] = scope[link[linked_rows]]
    stack[linked_rows] = stack[link[linked_rows]]
    _place_sums(events, np.array(order, dtype=np.int64), parent, is_backward, scope)
    in_order = np.array(order, dtype=np.int64)
    return OpNesting(parent, nested_ns, scope, stack, is_backward, shared, in_order)


def _by_lane(events: KinetoEvents) -> Iterator[Int64s]:
    """Yield the boxes of each thread that nest, by start, those around others first."""
    nests = np.flatnonzero(events.kind <= Kind.FRAME)
    nests = nests[events.kind[nests] != Kind.STEP]
    order = nests[
        np.lexsort((-events.duration_ns[nests], events.start_ns[nests], events.lane[nests]))
    ]
    if not len(order):
        return
    edges = np.flatnonzero(np.diff(events.lane[order])) + 1
    yield from np.split(order, edges)


def _forward_ops(events: KinetoEvents) -> dict[int, int]:
    """Return the op of the forward pass that each op of the backward pass differentiates.

    The trace links most of them by their times. Where it does not, both have a number, which is
    their thread's own: then it is enough if ops of one thread alone have it.
    """
    ops = np.flatnonzero(events.kind == Kind.OP)
    numbered = ops[events.sequence[ops] >= 0]
    backward = numbered[events.forward[numbered] > 0]
    found: dict[int, int] = {}
    if not len(backward):
        return found
    forward = numbered[events.forward[numbered] == 0]
    forward = forward[np.argsort(events.start_ns[forward], kind="stable")]
    by_number: dict[int, dict[int, tuple[list[int], list[int]]]] = {}
    columns = (events.sequence, events.lane, events.start_ns)
    for op, number, lane, start_ns in zip(
        forward.tolist(), *(column[forward].tolist() for column in columns), strict=True
    ):
        starts_ns, of_lane = by_number.setdefault(number, {}).setdefault(lane, ([], []))
        starts_ns.append(start_ns)
        of_lane.append(op)
    linked = _linked_lanes(events)
    columns = (events.sequence, events.forward, events.start_ns)
    for op, number, thread, start_ns in zip(
        backward.tolist(), *(column[backward].tolist() for column in columns), strict=True
    ):
        # The last one before it: numbers begin anew in each of several programs of a thread.
        candidates = {
            lane: of_lane[bisect_left(starts_ns, start_ns) - 1]
            for lane, (starts_ns, of_lane) in by_number.get(number, {}).items()
            if starts_ns[0] < start_ns
        }
        if thread in linked:
            candidates = {lane: each for lane, each in candidates.items() if lane == linked[thread]}
        if len(candidates) == 1:
            found[op] = next(iter(candidates.values()))
    return found


def _linked_lanes(events: KinetoEvents) -> dict[int, int]:
    """Return the thread that each number of a forward thread stands for, by the trace's links."""
    if not events.links or not len(events.links[0]):
        return {}
    number, is_end, lane, at_ns = events.links
    begins = {(int(number[at])): int(lane[at]) for at in np.flatnonzero(is_end == 0).tolist()}
    ops = np.flatnonzero((events.kind == Kind.OP) & (events.forward > 0))
    by_start = {
        (int(events.lane[op]), int(events.start_ns[op])): int(events.forward[op])
        for op in ops.tolist()
    }
    found: dict[int, int] = {}
    for at in np.flatnonzero(is_end == 1).tolist():
        thread = by_start.get((int(lane[at]), int(at_ns[at])))
        begun = begins.get(int(number[at]))
        if thread is not None and begun is not None:
            found.setdefault(thread, begun)
    return found


_ACCUMULATES = "torch::autograd::AccumulateGrad"


def _place_sums(
    events: KinetoEvents, order: Int64s, parent: Int64s, is_backward: Flags, scope: Int64s
) -> None:
    """Place what adds up gradients in the scope of the op that made them, which ran just before."""
    sums = np.array([text.endswith(_ACCUMULATES) for text in events.texts], dtype=np.bool_)
    if not sums.any():
        return
    is_sum = sums[events.name]
    is_root = _is_root(parent, is_backward)
    last = {}
    for box in order.tolist():
        lane = int(events.lane[box])
        if not is_backward[box]:
            continue
        if is_root(box) and not is_sum[box]:
            last[lane] = int(scope[box])
        elif is_sum[box]:
            scope[box] = last.get(lane, 0)
        elif parent[box] != NONE and is_sum[parent[box]]:
            scope[box] = scope[parent[box]]


def _is_root(parent: Int64s, is_backward: Flags) -> Callable[[int], bool]:
    def is_root(box: int) -> bool:
        caller = int(parent[box])
        return caller == NONE or not is_backward[caller]

    return is_root


class OpsAt:
    """Finds the innermost op of a thread around a moment."""

    def __init__(self, events: KinetoEvents, nesting: OpNesting) -> None:
        """Take the ops of a trace."""
        self._parent = nesting.parent
        self._ends_ns = events.start_ns + events.duration_ns
        lanes = events.lane[nesting.order]
        edges = np.flatnonzero(np.diff(lanes)) + 1 if len(lanes) else lanes
        self._ops = {
            int(events.lane[ops[0]]): ops for ops in np.split(nesting.order, edges) if len(ops)
        }
        self._starts_ns = {lane: events.start_ns[ops] for lane, ops in self._ops.items()}

    def at(self, lane: Int64s, start_ns: Int64s, end_ns: Int64s) -> Int64s:
        """Return the innermost op around each of these times, -1 where none is."""
        found = np.full(len(lane), NONE, dtype=np.int64)
        for number in np.unique(lane).tolist():
            ops = self._ops.get(number)
            if ops is None:
                continue
            rows = np.flatnonzero(lane == number)
            place = np.searchsorted(self._starts_ns[number], start_ns[rows], side="right") - 1
            op = np.where(place >= 0, ops[np.maximum(place, 0)], NONE)
            while True:
                late = (op != NONE) & (self._ends_ns[op] < end_ns[rows])
                if not late.any():
                    break
                op[late] = self._parent[op[late]]
            found[rows] = op
        return found
