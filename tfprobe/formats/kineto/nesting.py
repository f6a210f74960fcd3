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

    `op` is the innermost op, which ends at `op_end_ns`. `link` is the op of the forward pass that
    ops in it differentiate, and `is_linked` whether they belong to that op's place.
    """

    end_ns: int
    op: int
    op_end_ns: int
    scope: int
    stack: int
    link: int
    is_linked: bool
    is_backward: bool


def nest(events: KinetoEvents, places: Places) -> OpNesting:
    """Return where each op is."""
    found = _Nest(events, places)
    for rows in _by_lane(events):
        found.add_lane(rows)
    return found.nesting()


_NEVER_NS = 2**62
_OUTERMOST = _Open(_NEVER_NS, NONE, _NEVER_NS, 0, 0, NONE, is_linked=False, is_backward=False)


class _Nest:
    """Goes through the boxes of each thread by their starts, with those open around each."""

    def __init__(self, events: KinetoEvents, places: Places) -> None:
        count = len(events.kind)
        self._events, self._places = events, places
        self._forward_of = _forward_ops(events)
        evaluates = np.array([text.startswith(_EVALUATES) for text in events.texts] or [False])
        self._evaluates = evaluates[events.name]
        self._order: list[int] = []
        self._parent, self._link = (np.full(count, NONE, dtype=np.int64) for _ in range(2))
        self._nested_ns, self._scope, self._stack = (
            np.zeros(count, dtype=np.int64) for _ in range(3)
        )
        self._is_backward = np.zeros(count, dtype=np.bool_)

    def add_lane(self, rows: Int64s) -> None:
        """Go through the boxes of a thread."""
        events = self._events
        starts_ns = events.start_ns[rows]
        columns = (rows, starts_ns, starts_ns + events.duration_ns[rows], events.kind[rows])
        around = [_OUTERMOST]
        for box, start_ns, until_ns, kind in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            while around[-1].end_ns <= start_ns and len(around) > 1:
                around.pop()
            outer = around[-1]
            # A box that ends after the one around it is cut there, but no op by a function: the
            # times of functions are less exact (pytorch/pytorch#174555).
            end_ns = min(until_ns, outer.end_ns)
            if kind == Kind.OP:
                end_ns = min(until_ns, outer.op_end_ns)
                around.append(self._op(box, outer, start_ns, end_ns))
            elif kind == Kind.FRAME:
                around += self._frame(box, outer, end_ns)
            else:
                scope = self._places.in_annotation(outer.scope, int(events.name[box]))
                around.append(outer._replace(end_ns=end_ns, scope=scope))

    def _op(self, box: int, outer: _Open, start_ns: int, end_ns: int) -> _Open:
        self._order.append(box)
        self._parent[box] = outer.op
        if outer.op != NONE:
            self._nested_ns[outer.op] += end_ns - start_ns
        own = self._forward_of.get(box, NONE)
        link = outer.link if own == NONE else own
        is_linked = own != NONE or outer.is_linked
        is_backward = outer.is_backward or own != NONE or bool(self._evaluates[box])
        self._scope[box], self._stack[box] = outer.scope, outer.stack
        self._is_backward[box] = is_backward
        if is_linked:
            self._link[box] = link
        return _Open(end_ns, box, end_ns, outer.scope, outer.stack, link, is_linked, is_backward)

    def _frame(self, box: int, outer: _Open, end_ns: int) -> list[_Open]:
        """Return what a function of Python opens: nothing if it says nothing of ops in it."""
        if self._places.opens_annotation(int(self._events.name[box])):
            return []  # the annotation begins within the function and outlasts it
        stack, call = outer.stack, int(self._events.call[box])
        if call != NONE:
            stack = self._places.at_line(stack, *self._events.call_lines[call])
        module, frame = self._places.frame(int(self._events.name[box]))
        if module is not None:
            scope = self._places.in_module(outer.scope, module)
            # What is computed again for the backward pass has its own place.
            return [outer._replace(end_ns=end_ns, scope=scope, stack=stack, is_linked=False)]
        if frame is not None:
            stack = self._places.called(stack, frame)
        return [] if stack == outer.stack else [outer._replace(end_ns=end_ns, stack=stack)]

    def nesting(self) -> OpNesting:
        """Return where ops are, those of the backward pass where their forward ops are."""
        order, linked = np.array(self._order, dtype=np.int64), np.flatnonzero(self._link != NONE)
        for place in (self._scope, self._stack):
            place[linked] = place[self._link[linked]]
        _place_sums(self._events, order, self._parent, self._is_backward, self._scope)
        return OpNesting(
            parent=self._parent,
            nested_ns=self._nested_ns,
            scope=self._scope,
            stack=self._stack,
            is_backward=self._is_backward,
            link=self._shared_numbers(),
            order=order,
        )

    def _shared_numbers(self) -> Int64s:
        shared = np.zeros(len(self._parent), dtype=np.int64)
        for number, (backward, forward) in enumerate(sorted(self._forward_of.items()), start=1):
            caller = int(self._parent[backward])
            if caller == NONE or self._forward_of.get(caller) != forward:
                shared[forward] = shared[backward] = number
        return shared


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
