"""Attribute the memory at the peak of an allocator to ops, layers, lines and roles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import numpy as np

from tfprobe.analysis.core.collective_ops import names_collective
from tfprobe.analysis.core.source_lines import BYS, By, Origins
from tfprobe.analysis.core.tensor_sizes import dtype_bytes, output_bytes
from tfprobe.analysis.memory.allocator_levels import Pieces
from tfprobe.analysis.ops import parameters
from tfprobe.analysis.ops.parameters import GRADIENT, Use, is_of_optimizer_scope, is_optimizers
from tfprobe.profile.capture_tables import Allocations, Executions, Place
from tfprobe.profile.graph import Node, Shape
from tfprobe.profile.profile import Capture
from tfprobe.profile.tables import Int64s

NO_OP = "(unknown op)"
NO_TYPE = "(unknown type)"
NO_SHAPE = "(unknown shape)"
NO_SCOPE = "(no scope)"
# How many of the largest pieces at a peak are listed.
MOST_PIECES = 100

# What pieces can be grouped by: the origin of their op, or a property of their own.
GroupKey = By | Literal["scope", "type", "shape", "role"]
GROUP_KEYS: tuple[GroupKey, ...] = (*BYS, "scope", "type", "shape", "role")


@dataclass(frozen=True, slots=True)
class Piece:
    """An allocation that was live at a moment, and the op it was made for; "" unknown.

    `label` stands in for the op where that is unknown.
    """

    op: str
    op_type: str
    shape: str
    bytes: int
    role: Role
    label: str = NO_OP

    @staticmethod
    def of(op: str, op_type: str, shape: str, size_bytes: int) -> Piece:
        """Return a piece with the role of its op."""
        return Piece(op, op_type, shape, size_bytes, role_of(op, op_type))


@dataclass(frozen=True, slots=True)
class Holder:
    """What held memory at a peak: an op, layer, line or the like, in one role.

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
    """The peak of an allocator over all traced steps, `after_ns` from the start of its step.

    `largest` are the largest live pieces, at most MOST_PIECES.
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
    by: GroupKey,
) -> Peak:
    """Return a peak with its holders, the largest first."""
    groups: dict[tuple[str, Role], list[Piece]] = {}
    roles: dict[Role, int] = {}
    for piece in live:
        label = _label(piece, origins, by)
        groups.setdefault((label, piece.role), []).append(piece)
        roles[piece.role] = roles.get(piece.role, 0) + piece.bytes
    holders = [_holder(label, role, every) for (label, role), every in groups.items()]
    return Peak(
        capture=capture,
        after_ns=at_ns - capture.start_ns,
        bytes=size_bytes,
        holders=tuple(sorted(holders, key=lambda holder: (-holder.bytes, holder.label))),
        by_role=tuple(sorted(roles.items(), key=lambda item: -item[1])),
        largest=tuple(sorted(live, key=lambda piece: (-piece.bytes, piece.op))[:MOST_PIECES]),
    )


def _label(piece: Piece, origins: Origins, by: GroupKey) -> str:
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
    """Return the pieces of an allocator that were live right after a moment of a capture."""
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
    """Return whether a piece was freed before the run of the op that allocated it ended."""
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
    # Results of a program that do not lie in memory of its arguments.
    OUTPUT = "output"
    CONSTANT = "constant"
    COMMUNICATION = "communication"
    TEMPORARY = "temporary"
    # Allocated before the step began, for an unknown purpose.
    ALLOCATED_BEFORE = "held_before"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a graph, named by its node; `bytes` is 0 if its type is unknown."""

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
# How many variables of the size of a parameter an optimizer keeps for it, by the update op.
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
    if names_collective(op_type):
        return Role.COMMUNICATION
    if op_type in _INPUTS or op_type.startswith(_INPUT_PREFIXES):
        return Role.INPUT
    # Keras in TensorFlow 1 puts gradients into the scope of the optimizer.
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
    return tuple(sorted(found, key=lambda variable: (-variable.bytes, variable.name)))


def lasting_bytes(
    nodes: Iterable[Node], shapes: Mapping[tuple[str, int], Shape]
) -> dict[Role, int]:
    """Return the bytes of the variables of a graph: parameters and optimizer state.

    Optimizer state without variables in the graph is counted by the ops that update parameters.
    """
    every = list(nodes)
    sizes = {Role.PARAMETERS: 0, Role.OPTIMIZER_STATE: 0}
    by_name = {node.name: node for node in every}
    has_slots = False
    for variable in variables(every):
        has_slots |= variable.role is Role.OPTIMIZER_STATE
        sizes[variable.role] += variable.bytes
    if has_slots:
        return sizes
    for node in every:
        sizes[Role.OPTIMIZER_STATE] += _slots(node) * _gradient_bytes(node, by_name, shapes)
    return sizes


def _slots(node: Node) -> int:
    match = _APPLY.match(node.op)
    return _SLOTS.get(match["rule"], 0) if match else 0


def _gradient_bytes(
    node: Node, by_name: Mapping[str, Node], shapes: Mapping[tuple[str, int], Shape]
) -> int:
    """Return the size of the largest input of an update, the gradient: that of the parameter."""
    sizes = [0]
    for at, name in node.inputs.items():
        source = by_name.get(name)
        if source is not None:
            sizes.append(output_bytes(source, node.sources.get(at, 0), shapes) or 0)
    return max(sizes)
