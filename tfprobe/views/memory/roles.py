"""Say by the name and the type of an op what its memory is for, as far as these tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from tfprobe.model.graph import Node, Shape
from tfprobe.views.collective_rows import is_named_so
from tfprobe.views.parameters import parameters
from tfprobe.views.sizes import dtype_bytes, output_bytes


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


_VARIABLES = frozenset({"Variable", "VariableV2", "VarHandleOp", "Assign", "AssignVariableOp"})
_INPUTS = frozenset({"Placeholder", "_Arg", "_Recv", "_HostRecv", "PyFunc", "EagerPyFunc"})
_INPUT_PREFIXES = ("IteratorGetNext", "QueueDequeue", "FIFOQueueDequeue", "Unstage", "ReaderRead")
_GRADIENT = re.compile(r"(?:\A|/)(?:gradient_tape|gradients(?:_\d+)?)/|_grad/")
_OPTIMIZERS = r"adam|adamw|adamax|nadam|adagrad|adadelta|rmsprop|momentum|sgd|ftrl|lamb|lion"
# Slots of TensorFlow 1 stand below their variable: "dense/kernel/Adam_1"; Keras' optimizers have a
# scope: "adam/dense/kernel/momentum".
_SLOT = re.compile(rf"/(?:{_OPTIMIZERS})(?:_\d+)?\Z", re.IGNORECASE)
_SCOPE = re.compile(rf"(?:\A|/)(?:training/)?(?:{_OPTIMIZERS})(?:_\d+)?/", re.IGNORECASE)
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
        return Role.OPTIMIZER_STATE if _is_optimizers(op) else Role.PARAMETERS
    if _APPLY.match(op_type):
        return Role.UPDATE
    if is_named_so(op_type):
        return Role.COMMUNICATION
    if op_type in _INPUTS or op_type.startswith(_INPUT_PREFIXES):
        return Role.INPUT
    # Keras of TensorFlow 1 has its gradients in the optimizer's scope.
    if _GRADIENT.search(op):
        return Role.GRADIENTS
    return Role.UPDATE if _SCOPE.search(op) else Role.ACTIVATIONS


def variables(nodes: Iterable[Node]) -> tuple[Variable, ...]:
    """Return the variables of a graph whose shapes are known, the largest first."""
    every = list(nodes)
    found = [
        Variable(
            name=node.name,
            role=Role.OPTIMIZER_STATE if _is_optimizers(node.name) else Role.PARAMETERS,
            parameters=count,
            bytes=count * (dtype_bytes(node, 0) or 0),
        )
        for node, count in zip(every, parameters(every), strict=True)
        if count
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


def _is_optimizers(name: str) -> bool:
    return bool(_SLOT.search(name) or _SCOPE.search(name))


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
