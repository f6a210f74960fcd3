"""Say what held memory at the fullest moment of an allocator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import numpy as np

from tfprobe.analysis.core.collective_ops import is_named_so
from tfprobe.analysis.core.source_lines import BYS, By, Origins
from tfprobe.analysis.core.tensor_sizes import dtype_bytes, output_bytes
from tfprobe.analysis.memory.allocator_levels import Pieces
from tfprobe.analysis.ops import parameters
from tfprobe.analysis.ops.parameters import GRADIENT, Use, is_of_optimizer_scope, is_optimizers
from tfprobe.profile.capture_tables import Allocations, Executions, Place
from tfprobe.profile.graph import Node, Shape
from tfprobe.profile.profile import Capture
from tfprobe.profile.tables import Int64s

NO_OP = "(no op told)"
NO_TYPE = "(no type told)"
NO_SHAPE = "(no shape told)"
NO_SCOPE = "(no scope)"
# How many of the pieces that were held at a peak are kept one by one.
MOST_PIECES = 100

# What pieces may be counted for: where their op comes from, and what they are.
HeldBy = By | Literal["scope", "type", "shape", "role"]
HELD_BYS: tuple[HeldBy, ...] = (*BYS, "scope", "type", "shape", "role")


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes that were held at a moment, and the op that they were taken for; "" unknown.

    `label` is what they count for where no op is known.
    """

    op: str
    op_type: str
    shape: str
    bytes: int
    role: Role
    label: str = NO_OP

    @staticmethod
    def of(op: str, op_type: str, shape: str, size_bytes: int) -> Piece:
        """Return a piece in the role that its op tells."""
        return Piece(op, op_type, shape, size_bytes, role_of(op, op_type))


@dataclass(frozen=True, slots=True)
class Holder:
    """What held memory at a peak: an op, layer, line ..., in one role, with all of its pieces.

    `op_type` and `shape` are those of its largest piece, "" unknown.
    """

    label: str
    op_type: str
    role: Role
    bytes: int
    pieces: int
    shape: str


@dataclass(frozen=True, slots=True)
class Peak:
    """The fullest moment of an allocator in any traced step, `after_ns` the step began.

    `largest` are the largest pieces held then, at most MOST_PIECES.
    """

    capture: Capture
    after_ns: int
    bytes: int
    holders: tuple[Holder, ...]
    by_role: tuple[tuple[Role, int], ...]
    largest: tuple[Piece, ...]


def peak(
    capture: Capture,
    at_ns: int,
    size_bytes: int,
    live: Sequence[Piece],
    origins: Origins,
    by: HeldBy,
) -> Peak:
    """Return a peak of so many bytes with its holders, the largest first."""
    held: dict[tuple[str, Role], list[Piece]] = {}
    roles: dict[Role, int] = {}
    for piece in live:
        label = _label(piece, origins, by)
        held.setdefault((label, piece.role), []).append(piece)
        roles[piece.role] = roles.get(piece.role, 0) + piece.bytes
    holders = [_holder(label, role, every) for (label, role), every in held.items()]
    return Peak(
        capture=capture,
        after_ns=at_ns - capture.start_ns,
        bytes=size_bytes,
        holders=tuple(sorted(holders, key=lambda holder: (-holder.bytes, holder.label))),
        by_role=tuple(sorted(roles.items(), key=lambda each: -each[1])),
        largest=tuple(sorted(live, key=lambda each: (-each.bytes, each.op))[:MOST_PIECES]),
    )


def _label(piece: Piece, origins: Origins, by: HeldBy) -> str:
    if by == "role":
        return piece.role.value
    if not piece.op:
        return piece.label
    if by == "shape":
        return piece.shape or NO_SHAPE
    if by == "type":
        return piece.op_type or NO_TYPE
    if by == "scope":
        return origins.of(piece.op).op.rpartition("/")[0] or NO_SCOPE
    return origins.of(piece.op).label(by)


def _holder(label: str, role: Role, every: Sequence[Piece]) -> Holder:
    largest = max(every, key=lambda piece: piece.bytes)
    return Holder(
        label=label,
        op_type=largest.op_type,
        role=role,
        bytes=sum(piece.bytes for piece in every),
        pieces=len(every),
        shape=largest.shape,
    )


def recorded_pieces(
    rows: Executions, allocations: Allocations, found: Pieces, at_ns: int
) -> list[Piece]:
    """Return the pieces of an allocator that were held right after a moment of a capture."""
    live = np.flatnonzero(found.live_at(at_ns))
    texts = allocations.strings
    ops = {texts[allocations.op[found.row[at]]] for at in live.tolist()}
    runs = _runs(rows, allocations, ops)
    return [_piece(allocations, found, at, runs) for at in live.tolist()]


# By op: starts and ends of its runs on the host in one capture, by start.
_Runs = dict[str, tuple[Int64s, Int64s]]


def _runs(rows: Executions, allocations: Allocations, ops: set[str]) -> _Runs:
    if not len(allocations):
        return {}
    chosen = (rows.capture == allocations.capture[0]) & (rows.place == Place.HOST)
    names = [at for at, text in enumerate(rows.strings.values) if text in ops and text]
    at = np.flatnonzero(chosen & np.isin(rows.name, names))
    at = at[np.argsort(rows.start_ns[at], kind="stable")]
    return {
        rows.strings[name]: (
            rows.start_ns[mine],
            rows.start_ns[mine] + rows.duration_ns[mine],
        )
        for name in names
        for mine in (at[rows.name[at] == name],)
        if len(mine)
    }


def _piece(allocations: Allocations, found: Pieces, at: int, runs: _Runs) -> Piece:
    row = found.row[at]
    op = allocations.strings[allocations.op[row]]
    op_type = allocations.strings[allocations.op_type[row]]
    shape = allocations.strings[allocations.shape[row]]
    size = int(found.bytes[at])
    if _is_temporary(int(found.start_ns[at]), int(found.end_ns[at]), runs.get(op)):
        return Piece(op, op_type, shape, size, Role.TEMPORARY)
    return Piece.of(op, op_type, shape, size)


def _is_temporary(start_ns: int, end_ns: int, runs: tuple[Int64s, Int64s] | None) -> bool:
    """Say whether a piece was given back before the run of its op that took it was over."""
    if runs is None:
        return False
    run = int(np.searchsorted(runs[0], start_ns, side="right")) - 1
    return run >= 0 and start_ns <= int(runs[1][run]) and end_ns <= int(runs[1][run])


class Role(Enum):
    """What memory is for. The value is its name in documents."""

    PARAMETERS = "parameters"
    OPTIMIZER_STATE = "optimizer_state"
    # What an optimizer computes on the way to new parameters.
    UPDATE = "update"
    GRADIENTS = "gradients"
    ACTIVATIONS = "activations"
    INPUT = "input"
    COMMUNICATION = "communication"
    TEMPORARY = "temporary"
    # It was there before the step began and nobody says what it is.
    HELD_BEFORE = "held_before"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a graph, by the node that tells of it; `bytes` is 0 where its type is open."""

    name: str
    role: Role
    parameters: int
    bytes: int


_ROLES: Mapping[Use, Role] = {
    Use.PARAMETERS: Role.PARAMETERS,
    Use.OPTIMIZER_STATE: Role.OPTIMIZER_STATE,
}
_VARIABLES = frozenset({"Variable", "VariableV2", "VarHandleOp", "Assign", "AssignVariableOp"})
_INPUTS = frozenset({"Placeholder", "_Arg", "_Recv", "_HostRecv", "PyFunc", "EagerPyFunc"})
_INPUT_PREFIXES = ("IteratorGetNext", "QueueDequeue", "FIFOQueueDequeue", "Unstage", "ReaderRead")
_APPLY = re.compile(r"(?:Resource)?(?:Sparse)?Apply(?P<rule>\w+)\Z")
# Variables of the size of a parameter that an update keeps beside it, by the op that updates.
_SLOTS: Mapping[str, int] = {
    "AdaMax": 2,
    "Adadelta": 2,
    "Adagrad": 1,
    "AdagradV2": 1,
    "Adam": 2,
    "AdamWithAmsgrad": 3,
    "AddSign": 1,
    "CenteredRMSProp": 3,
    "Ftrl": 2,
    "FtrlV2": 2,
    "KerasMomentum": 1,
    "Momentum": 1,
    "PowerSign": 1,
    "RMSProp": 2,
}


def role_of(op: str, op_type: str) -> Role:
    """Return what the outputs of an op are for."""
    if op_type in _VARIABLES:
        return Role.OPTIMIZER_STATE if is_optimizers(op) else Role.PARAMETERS
    if _APPLY.match(op_type):
        return Role.UPDATE
    if is_named_so(op_type):
        return Role.COMMUNICATION
    if op_type in _INPUTS or op_type.startswith(_INPUT_PREFIXES):
        return Role.INPUT
    # Keras of TensorFlow 1 has its gradients in the optimizer's scope.
    if GRADIENT.search(op):
        return Role.GRADIENTS
    return Role.UPDATE if is_of_optimizer_scope(op) else Role.ACTIVATIONS


def variables(nodes: Iterable[Node]) -> tuple[Variable, ...]:
    """Return the variables of a graph whose shapes are known, the largest first."""
    every = list(nodes)
    found = [
        Variable(
            name=every[variable.at].name,
            role=_ROLES[variable.use],
            parameters=variable.count,
            bytes=variable.count * (dtype_bytes(every[variable.shaped], 0) or 0),
        )
        for variable in parameters.variables(every)
        if variable.count and variable.use in _ROLES
    ]
    return tuple(sorted(found, key=lambda each: (-each.bytes, each.name)))


def lasting_bytes(
    nodes: Iterable[Node], shapes: Mapping[tuple[str, int], Shape]
) -> dict[Role, int]:
    """Return what the variables of a graph hold: parameters, and what optimizers keep beside them.

    State that no variable of the graph is counts by the op that updates it.
    """
    every = list(nodes)
    held = {Role.PARAMETERS: 0, Role.OPTIMIZER_STATE: 0}
    by_name = {node.name: node for node in every}
    has_slots = False
    for variable in variables(every):
        has_slots |= variable.role is Role.OPTIMIZER_STATE
        held[variable.role] += variable.bytes
    if has_slots:
        return held
    for node in every:
        held[Role.OPTIMIZER_STATE] += _slots(node) * _gradient_bytes(node, by_name, shapes)
    return held


def _slots(node: Node) -> int:
    found = _APPLY.match(node.op)
    return _SLOTS.get(found["rule"], 0) if found else 0


def _gradient_bytes(
    node: Node, by_name: Mapping[str, Node], shapes: Mapping[tuple[str, int], Shape]
) -> int:
    """Return the largest input of an update: its gradient, which is as large as the parameter."""
    sizes = [0]
    for at, name in node.inputs.items():
        source = by_name.get(name)
        if source is not None:
            sizes.append(output_bytes(source, node.sources.get(at, 0), shapes) or 0)
    return max(sizes)
