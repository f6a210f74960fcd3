"""Make a node of all executions of an op that are alike: called at one place, with equal shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import orjson

from tfprobe.formats.kineto.events import KinetoEvents
from tfprobe.formats.kineto.nesting import NONE, OpNesting
from tfprobe.formats.kineto.scopes import Module, Places
from tfprobe.profile.graph import Frame, Node
from tfprobe.profile.tables import Int64s
from tfprobe.profile.torch_call import Sizes, TorchCall

# As JAX's and TensorFlow's gradients.
_GRADIENTS = "gradients"
_NO_SCOPE = "\N{DIVISION SLASH}"
# The op of nodes that stand for parameters, and the attribute that says what they are for.
_PARAMETER, _USE = "parameter", {"use": "parameters"}
_ACCUMULATES = "torch::autograd::AccumulateGrad"
# How many dimensions and arguments make sense; damaged files may have more.
_MOST_SIZES, _MOST_ARGUMENTS = 64, 4096
_DTYPES = {
    "float": "DT_FLOAT",
    "double": "DT_DOUBLE",
    "c10::Half": "DT_HALF",
    "c10::BFloat16": "DT_BFLOAT16",
    "int": "DT_INT32",
    "long int": "DT_INT64",
    "bool": "DT_BOOL",
}

_Key = tuple[str, bool, str, bytes, tuple[Frame, ...]]


class NodeNames:
    """Names the nodes of the captures of a process: alike ops have one name in all of them."""

    def __init__(self) -> None:
        """Start with nothing named."""
        self._names: dict[tuple[_Key, str], str] = {}
        self._counts: dict[str, int] = {}

    def name(self, key: _Key, suffix: str = "") -> str:
        """Return the name of a node; of several of one scope and op, later ones are numbered.

        Collectives have a suffix where they are of several groups or sizes, so that their names are
        those of all ranks.
        """
        known = self._names.get((key, suffix))
        if known is None:
            scope, is_backward, op = key[:3]
            own = f"{op}{suffix}".replace("/", _NO_SCOPE)
            plain = "/".join(filter(None, (_GRADIENTS if is_backward else "", scope, own)))
            number = self._counts.get(plain, 0)
            self._counts[plain] = number + 1
            known = self._names[key, suffix] = f"{plain}_{number}" if number else plain
        return known


class OpNodes:
    """The nodes of a trace. `of_op` is the number of each box's node, -1 of those that are no ops.

    `names` are those of nodes by number, `nodes` the nodes themselves by name.
    """

    def __init__(
        self, events: KinetoEvents, nesting: OpNesting, places: Places, known: NodeNames
    ) -> None:
        """Group the ops of a trace."""
        ops = nesting.order
        columns = np.stack(
            (
                nesting.scope[ops],
                nesting.is_backward[ops].astype(np.int64),
                events.name[ops],
                events.signature[ops],
                nesting.stack[ops],
                events.group[ops],
                events.message[ops],
            )
        )
        kinds, first, number = _distinct(columns)
        self.of_op = np.full(len(events.kind), NONE, dtype=np.int64)
        self.of_op[ops] = number
        self.names: list[str] = [""] * len(first)
        self.nodes: dict[str, Node] = {}
        calls = _calls(events, nesting, self.of_op)
        called = _called(nesting, self.of_op)
        # In the order in which they ran first, which later captures mostly share.
        order = np.argsort(events.start_ns[ops[first]], kind="stable").tolist()
        several = len(np.unique(events.group[events.group != NONE])) > 1
        sizes = _message_sizes(kinds)
        keys = [self._key(events, places, kinds[:, at].tolist()) for at in range(len(first))]
        for at in order:
            group = int(kinds[5, at])
            suffix = f" of group {events.texts[group]}" if several and group != NONE else ""
            if len(sizes.get(int(kinds[2, at]), ())) > 1:
                suffix += f" of {int(kinds[6, at]):,} B"
            self.names[at] = known.name(keys[at], suffix)
        for at in order:
            _, is_backward, op, _, frames = keys[at]
            signature = int(kinds[3, at])
            arguments = events.signatures[signature] if signature != NONE else None
            self.nodes[self.names[at]] = Node(
                name=self.names[at],
                op=op,
                types=frozenset({op}),
                inputs={place: self.names[each] for place, each in enumerate(called.get(at, ()))},
                trace=frames or None,
                is_backward=is_backward,
                call=_call(arguments, calls.get(at, frozenset())),
            )

    @staticmethod
    def _key(events: KinetoEvents, places: Places, kind: list[int]) -> _Key:
        scope, is_backward, name, signature, stack = kind[:5]
        arguments = events.signatures[signature] if signature != NONE else None
        encoded = orjson.dumps(arguments) if arguments is not None else b""
        op, frames = events.texts[name], places.stack(stack)
        return places.scope(scope), bool(is_backward), op, encoded, frames


def _message_sizes(kinds: Int64s) -> dict[int, set[int]]:
    """Return the sizes of what collectives of each op move."""
    found: dict[int, set[int]] = {}
    for name, size in zip(kinds[2].tolist(), kinds[6].tolist(), strict=True):
        if size:
            found.setdefault(name, set()).add(size)
    return found


def _distinct(columns: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return the distinct columns, where each is first, and the number of each."""
    if not columns.shape[1]:
        nothing = np.zeros(0, dtype=np.int64)
        return columns, nothing, nothing
    code = np.zeros(columns.shape[1], dtype=np.int64)
    for row in columns:
        # Numbers stay small: those of the pairs so far, times those of the next row.
        _, row = np.unique(row, return_inverse=True)
        _, code = np.unique(code * (int(row.max()) + 1) + row, return_inverse=True)
    _, first, number = np.unique(code, return_index=True, return_inverse=True)
    return columns[:, first], first, number


def _calls(events: KinetoEvents, nesting: OpNesting, of_op: Int64s) -> dict[int, frozenset[str]]:
    """Return the ops that ops of each node called."""
    called = nesting.order[nesting.parent[nesting.order] != NONE]
    pairs = np.unique(np.stack((of_op[nesting.parent[called]], events.name[called])), axis=1)
    found: dict[int, set[str]] = {}
    for node, name in pairs.T.tolist():
        found.setdefault(node, set()).add(events.texts[name])
    return {node: frozenset(names) for node, names in found.items()}


def _called(nesting: OpNesting, of_op: Int64s) -> dict[int, list[int]]:
    """Return the nodes that ops of each node called, other than itself."""
    ops = nesting.order[nesting.parent[nesting.order] != NONE]
    pairs = np.unique(np.stack((of_op[nesting.parent[ops]], of_op[ops])), axis=1)
    found: dict[int, list[int]] = {}
    for caller, callee in pairs.T.tolist():
        if caller != callee:
            found.setdefault(caller, []).append(callee)
    return found


def _call(arguments: tuple[Any, Any, Any] | None, calls: frozenset[str]) -> TorchCall:
    """Return how an op was called, from its arguments in the trace. Any: JSON."""
    if arguments is None:
        return TorchCall(calls=calls)
    shapes, types, values = (part if isinstance(part, list) else [] for part in arguments)
    sizes, lists = [], []
    for shape in shapes[:_MOST_ARGUMENTS]:
        is_list = isinstance(shape, list) and any(isinstance(part, list) for part in shape)
        sizes.append(() if is_list else _sizes(shape))
        lists.append(tuple(map(_sizes, shape)) if is_list else ())
    return TorchCall(
        sizes=tuple(sizes),
        lists=tuple(lists),
        types=tuple(text if isinstance(text, str) else "" for text in types[:_MOST_ARGUMENTS]),
        values=tuple(str(value) for value in values[:_MOST_ARGUMENTS]),
        calls=calls,
    )


def _sizes(shape: Any) -> Sizes:
    """Return the sizes of a tensor, () where they are none."""
    if not isinstance(shape, list) or len(shape) > _MOST_SIZES:
        return ()
    sizes = tuple(size for size in shape if type(size) is int and 0 <= size < 2**48)
    return sizes if len(sizes) == len(shape) else ()


def parameters_of_modules(modules: Mapping[str, Module]) -> Iterator[Node]:
    """Yield a node for each parameter of a recorded model, in the scope of its module."""
    root = next((each.class_name for each in modules.values() if not each.path), "")
    for module in modules.values():
        path = [root, *module.path.split(".")] if module.path else [module.class_name]
        scope = "/".join(part for part in path if part)
        for name, shape, dtype in module.parameters:
            yield _parameter(f"{scope}/{name}" if scope else name, shape, dtype)


def parameters_of_sums(
    events: KinetoEvents, nesting: OpNesting, places: Places
) -> tuple[Node, ...]:
    """Return a node for each parameter that the backward pass adds gradients to.

    Of each, it does so once in a pass. A pass is over where the next op of the forward pass begins.
    """
    order = nesting.order[np.argsort(events.start_ns[nesting.order], kind="stable")]
    is_sum = np.array([text == _ACCUMULATES for text in events.texts], dtype=np.bool_)
    if not is_sum.any():
        return ()
    number = 0
    most: dict[tuple[int, int], int] = {}
    counts: dict[tuple[int, int], int] = {}
    for box in order.tolist():
        if not nesting.is_backward[box] and events.sequence[box] >= 0:
            counts.clear()
        elif is_sum[events.name[box]] and events.signature[box] != NONE:
            key = int(nesting.scope[box]), int(events.signature[box])
            counts[key] = counts.get(key, 0) + 1
            most[key] = max(most.get(key, 0), counts[key])
    found: list[Node] = []
    for (scope, signature), count in most.items():
        call = _call(events.signatures[signature], frozenset())
        if not call.sizes:
            continue
        for _ in range(count):
            number += 1
            text = places.scope(scope)
            name = f"{text}/(parameter {number})" if text else f"(parameter {number})"
            dtype = call.types[0] if call.types else ""
            found.append(_parameter(name, call.sizes[0], dtype))
    return tuple(found)


def _parameter(name: str, shape: Sizes, dtype: str) -> Node:
    known = _DTYPES.get(dtype) or {
        "float32": "DT_FLOAT",
        "float64": "DT_DOUBLE",
        "float16": "DT_HALF",
        "bfloat16": "DT_BFLOAT16",
    }.get(dtype, "")
    return Node(
        name=name,
        op=_PARAMETER,
        shape=shape or (1,),
        output_shapes={0: shape or (1,)},
        types=frozenset({_PARAMETER}),
        attributes=_USE,
        dtypes=(known,) if known else (),
    )
