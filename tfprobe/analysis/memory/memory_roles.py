"""Say by the name and the type of an op what its memory is for, as far as these tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from tfprobe.analysis.core.collective_ops import is_named_so
from tfprobe.analysis.core.tensor_sizes import dtype_bytes, output_bytes
from tfprobe.analysis.ops import parameters
from tfprobe.analysis.ops.parameters import GRADIENT, Use, is_of_optimizer_scope, is_optimizers
from tfprobe.profile.graph import Node, Shape


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
            name=every[each.at].name,
            role=_ROLES[each.use],
            parameters=each.count,
            bytes=each.count * (dtype_bytes(every[each.shaped], 0) or 0),
        )
        for each in parameters.variables(every)
        if each.count and each.use in _ROLES
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
    for each in variables(every):
        has_slots |= each.role is Role.OPTIMIZER_STATE
        held[each.role] += each.bytes
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
