"""Find the variables of a graph, each once, with their number of elements and their use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod

from tfprobe.profile.graph import Node, Shape

_DEFINITIONS = frozenset({"Variable", "VariableV2", "VarHandleOp"})
# The op of nodes that stand for arguments of compiled programs, and the attribute with their use.
ARGUMENT, USE = "parameter", "use"
# They pass a variable to a function that was made elsewhere. The arguments of a function itself are
# not nodes.
_ARGUMENTS = frozenset({"Placeholder", "_Arg"})
_READ = "ReadVariableOp"
_OPTIMIZERS = (
    r"adam|adamw|adamax|nadam|adagrad|adadelta|adafactor|rmsprop|momentum|sgd|ftrl|lamb|lion|muon"
)
# Slots in TensorFlow 1 are below their variable: "dense/kernel/Adam_1"; Keras optimizers have a
# scope: "adam/dense/kernel/momentum".
_SLOT = re.compile(rf"/(?:{_OPTIMIZERS})(?:_\d+)?\Z|(?:\A|/)beta[12]_power\Z", re.IGNORECASE)
_SCOPE = re.compile(
    rf"(?:\A|/)(?:training/)?(?:{_OPTIMIZERS}|loss_scale_optimizer)(?:_\d+)?/"
    # PyTorch's annotations.
    r"|(?:\A|/)\w+\.(?:step|zero_grad)/",
    re.IGNORECASE,
)
GRADIENT = re.compile(r"(?:\A|/)(?:gradient_tape|gradients(?:_\d+)?)/|_grad/")
_APPLY = re.compile(r"(?:Resource)?(?:Sparse)?Apply")
_CHANGE = re.compile(r"Assign|ResourceScatter")
_SUMS = frozenset({"Add", "AddV2"})
# The update of a slot or sum takes a few ops; longer chains are computations.
_LONGEST_UPDATE = 50


class Use(Enum):
    """What a variable is for."""

    PARAMETERS = "parameters"
    OPTIMIZER_STATE = "optimizer_state"
    # Kept from step to step, but not used by layers: counters, metrics, random seeds.
    STATE = "state"


@dataclass(frozen=True, slots=True)
class ParameterSum:
    """A variable: `at` is the node it is counted at, `count` its number of elements, 0 if unknown.

    `shaped` is the node with its shape and type.
    """

    at: int
    shaped: int
    count: int
    use: Use


def is_optimizers(name: str) -> bool:
    """Return whether an op or a variable of this name belongs to an optimizer."""
    return bool(_SLOT.search(name) or _SCOPE.search(name))


def is_of_optimizer_scope(name: str) -> bool:
    """Return whether an op of this name is in the scope of an optimizer."""
    return bool(_SCOPE.search(name))


def parameters(nodes: Sequence[Node]) -> list[int]:
    """Return the number of parameters of each node, 0 if it is no variable or has an unknown shape.

    Only parameters of the model count: no optimizer state, metrics or feeds.
    """
    found = [0] * len(nodes)
    for variable in variables(nodes):
        if variable.use is Use.PARAMETERS:
            found[variable.at] += variable.count
    return found


def variables(nodes: Sequence[Node]) -> Iterator[ParameterSum]:
    """Yield the variables of a graph.

    A variable of TensorFlow 1 is counted at its definition. In a function of TensorFlow 2 it is an
    argument without a shape, and is counted at the first node that reads it, which is in the scope
    of its layer.
    """
    by_name = {node.name: at for at, node in enumerate(nodes)}
    for at, node in enumerate(nodes):
        if node.op in _DEFINITIONS:
            yield ParameterSum(at, at, element_count(node.shape), _use_by_name(node))
        elif node.op == ARGUMENT and USE in node.attributes:
            yield ParameterSum(at, at, element_count(node.shape), Use(node.attributes[USE]))
    users: dict[str, list[int]] = {}
    for at, node in enumerate(nodes):
        for name in node.variables or _read_by(node):
            users.setdefault(name, []).append(at)
    readers = _readers(nodes)
    for name, using in users.items():
        known = by_name.get(name)
        if known is None or nodes[known].op in _ARGUMENTS:
            yield from _of_handle(nodes, using, readers)


def element_count(shape: Shape) -> int:
    """Return the number of elements of a shape, 0 if it is not fully known."""
    return prod(shape) if shape and min(shape) >= 0 else 0


def _read_by(node: Node) -> tuple[str, ...]:
    """Return the variable that a node reads, if its input is all that is known."""
    return (node.inputs[0],) if node.op == _READ and 0 in node.inputs else ()


def _use_by_name(node: Node) -> Use:
    if is_optimizers(node.name):
        return Use.OPTIMIZER_STATE
    # Parameters are integers only in quantized models, with eight bits or fewer.
    return Use.STATE if _is_counter(node) else Use.PARAMETERS


def _is_counter(node: Node) -> bool:
    return any(re.match(r"DT_U?INT(?:32|64)", dtype) for dtype in node.dtypes)


def _of_handle(
    nodes: Sequence[Node], using: Sequence[int], readers: Mapping[str, Sequence[int]]
) -> Iterator[ParameterSum]:
    changes = [at for at in using if _CHANGE.match(nodes[at].op)]
    reads = [at for at in using if at not in changes and not _APPLY.match(nodes[at].op)]
    outside = [at for at in reads if not is_of_optimizer_scope(nodes[at].name)]
    # It belongs to the layer that reads it in the forward pass.
    places = [at for at in outside if not GRADIENT.search(nodes[at].name)] or outside or reads
    if not places:
        return
    made = _assigned(nodes, changes) if not any(_known(nodes[at]) for at in reads) else []
    shaped = next((at for at in (*reads, *made) if _known(nodes[at])), places[0])
    count = _known(nodes[shaped])
    yield ParameterSum(places[0], shaped, count, _use(nodes, outside, changes, count, readers))


def _known(node: Node) -> int:
    return (
        0 if node.op.startswith("ResourceGather") else element_count(node.output_shapes.get(0, ()))
    )


def _assigned(nodes: Sequence[Node], changes: Sequence[int]) -> list[int]:
    """Return the nodes whose output is assigned to, added to or subtracted from a variable."""
    names = {nodes[at].inputs.get(1) for at in changes if nodes[at].op.startswith("Assign")}
    return [at for at, node in enumerate(nodes) if node.name in names] if names else []


def _use(
    nodes: Sequence[Node],
    outside: Sequence[int],
    changes: Sequence[int],
    count: int,
    readers: Mapping[str, Sequence[int]],
) -> Use:
    """Return the use of a variable, by the ops that read it outside the scopes of optimizers."""
    if not outside:
        return Use.OPTIMIZER_STATE
    has_layer = any(nodes[at].name.count("/") > 1 for at in outside)
    if not changes:
        # Learning rates and slots have no scope in TensorFlow 2.11 and 2.12.
        is_rate = count == 1 and not has_layer and _are_variables_changed(nodes)
        return Use.OPTIMIZER_STATE if is_rate else Use.PARAMETERS
    if any(_is_counter(nodes[at]) for at in outside):
        return Use.STATE
    path = [_until_changed(nodes, at, changes, readers) for at in outside]
    if None in path:
        return Use.PARAMETERS
    between = {op for ops in path if ops is not None for op in ops}
    if between <= _SUMS:
        return Use.STATE
    # Layers also keep moving averages, which are parameters of the model.
    return Use.PARAMETERS if has_layer else Use.OPTIMIZER_STATE


def _are_variables_changed(nodes: Sequence[Node]) -> bool:
    return any(_CHANGE.match(node.op) for node in nodes)


def _until_changed(
    nodes: Sequence[Node], at: int, changes: Sequence[int], readers: Mapping[str, Sequence[int]]
) -> set[str] | None:
    """Return the ops between a read of a variable and its update, None if it is used elsewhere.

    A read that waits for the update comes after it, and has none.
    """
    changing = {nodes[change].name for change in changes}
    node = nodes[at]
    if any(node.inputs[number] in changing for number in node.waits):
        return set()
    ops: set[str] = set()
    waiting, seen = [at], {at}
    while waiting:
        reading = readers.get(nodes[waiting.pop()].name, ())
        if not reading:
            return None
        for reader in set(reading) - seen:
            seen.add(reader)
            if reader in changes:
                continue
            if _CHANGE.match(nodes[reader].op) or len(seen) > _LONGEST_UPDATE:
                return None
            ops.add(nodes[reader].op)
            waiting.append(reader)
    return ops


def _readers(nodes: Sequence[Node]) -> dict[str, list[int]]:
    """Return the nodes that read an output of each node, by its name."""
    found: dict[str, list[int]] = {}
    for at, node in enumerate(nodes):
        for number, name in node.inputs.items():
            if number not in node.waits:
                found.setdefault(name, []).append(at)
    return found
