"""Tell the arguments of a program apart: parameters of the model, optimizer state, other state.

Their names mostly say it. Where they do not, as with Keras and nnx, the program of a training step
does: the forward pass reads a parameter, and the program returns a new value made from it. Of an
argument that only the update reads, the new value is optimizer state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tfprobe.analysis.ops.parameters import ARGUMENT, USE, Use
from tfprobe.errors import Missing
from tfprobe.profile.graph import Node, TracedLoop
from tfprobe.profile.hlo import (
    DTYPES,
    HloComputation,
    HloInstruction,
    HloModule,
    HloShape,
    RanProgram,
)

UNTOLD = Missing(
    "neither the names of the program's arguments nor what it computes from them says which are "
    "parameters of the model"
)
FORWARD, BACKWARD = "jvp(", "transpose("
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPTIMIZERS = frozenset(
    (
        *("inner_opt_state", "momentum", "mu", "nu", "opt", "opt_state", "opt_states", "optim"),
        *("optimizer", "optimizer_state", "optimizer_states", "optimizer_variables"),
    )
)
_STATES = frozenset(
    (
        *("batch_stats", "cache", "count", "counter", "intermediates", "metrics"),
        *("metrics_variables", "rng", "rngs", "seed", "step"),
    )
)
_MODELS = frozenset(
    (
        *("model", "module", "net", "network", "non_trainable_variables", "param", "parameters"),
        *("params", "trainable_params", "trainable_variables", "variables", "weights"),
    )
)
# They alone say less: any array may be called so.
_LEAVES = frozenset(("bias", "embedding", "kernel", "weight"))
# They pass their operand on, whole or in part.
_PASSING = frozenset(
    ("bitcast", "broadcast", "convert", "copy", "get-tuple-element", "reshape", "transpose")
)
_MOST_STEPS = 8


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a program. `use` is None for an input.

    `name` is that of the framework, such as "params['dense']['kernel']". `reader` is the path of
    the first instruction that reads it, in the forward pass if it is read there; "" if unknown.
    """

    number: int
    name: str
    shape: HloShape
    use: Use | None
    reader: str


def arguments(module: HloModule) -> tuple[Argument, ...] | Missing:
    """Return the arguments of a program, or why nobody knows which are the model's."""
    entry = module.computations.get(module.entry)
    if entry is None:
        return Missing("the program has no beginning")
    found = [each for each in entry.instructions if each.opcode == "parameter"]
    if not found:
        return Missing("the program has no arguments")
    readers = _Readers(module, entry)
    uses = _by_names(found) or _by_readers(found, readers)
    if uses is None:
        return UNTOLD
    return tuple(
        Argument(each.parameter, each.op_name or each.name, each.shape, use, readers.first(each))
        for each, use in zip(found, uses, strict=True)
    )


def trains(module: HloModule) -> bool:
    """Return whether a program has a backward pass."""
    return any(
        BACKWARD in instruction.op_name
        for computation in module.computations.values()
        for instruction in computation.instructions
    )


def model_arguments(programs: Sequence[RanProgram]) -> tuple[Argument, ...] | Missing:
    """Return the arguments of the program with most parameters, or why none is known.

    The programs of one loop have the same model, as a training and an evaluation step have.
    """
    reason = Missing("the recording has no compiled program")
    most: tuple[Argument, ...] = ()
    for program in programs:
        found = arguments(program.module)
        if isinstance(found, Missing):
            reason = found
        elif _parameter_count(found) > _parameter_count(most):
            most = found
    return most or reason


def _parameter_count(found: Sequence[Argument]) -> int:
    return sum(each.shape.elements for each in found if each.use is Use.PARAMETERS)


def with_parameters(traced: TracedLoop) -> TracedLoop:
    """Return traced steps whose graph also has the parameters and state of compiled programs.

    Their nodes are in the scopes of what reads them. Without a known model, nothing is added.
    """
    found = model_arguments(traced.programs)
    if isinstance(found, Missing):
        return traced
    known = {node.name for node in traced.graph.nodes}
    made = [_node(each) for each in found if each.use is not None]
    new = [node for node in made if node.name not in known]
    return replace(
        traced,
        graph=replace(traced.graph, nodes=(*traced.graph.nodes, *new)),
        devices=(*traced.devices, *(None for _ in new)),
    )


def _node(argument: Argument) -> Node:
    shape = argument.shape.sizes or (1,)
    dtype = DTYPES.get(argument.shape.dtype, "")
    return Node(
        name=node_name(argument),
        op=ARGUMENT,
        shape=shape,
        output_shapes={0: shape},
        types=frozenset({ARGUMENT}),
        attributes={} if argument.use is None else {USE: argument.use.value},
        dtypes=(dtype,) if dtype else (),
    )


def node_name(argument: Argument) -> str:
    """Return the name of the node that stands for an argument, in the scope of what reads it."""
    scope = argument.reader.rpartition("/")[0]
    own = argument.name.replace("/", "\N{DIVISION SLASH}")
    return f"{scope}/{own}" if scope else own


def _by_names(found: Sequence[HloInstruction]) -> list[Use | None] | None:
    """Return the uses by names, None if none names a model."""
    words = [frozenset(_WORD.findall(each.op_name)) for each in found]
    models = _MODELS if any(_MODELS & each for each in words) else _LEAVES
    uses: list[Use | None] = []
    for each, own in zip(found, words, strict=True):
        if _OPTIMIZERS & own:
            uses.append(Use.OPTIMIZER_STATE)
        elif _STATES & own:
            uses.append(Use.STATE)
        else:
            uses.append(Use.PARAMETERS if models & own and _is_real(each) else None)
    return uses if Use.PARAMETERS in uses else None


def _is_real(instruction: HloInstruction) -> bool:
    """Return whether these are fractions: indices, counters and keys are no parameters."""
    return instruction.shape.dtype.startswith(("f", "bf", "c"))


def _by_readers(found: Sequence[HloInstruction], readers: _Readers) -> list[Use | None] | None:
    """Return the uses by what a training step does with its arguments, None if it is none."""
    if not readers.trains:
        return None
    uses: list[Use | None] = []
    for each in found:
        if not readers.is_returned(each):
            uses.append(None)
        elif not readers.is_read_forward(each):
            uses.append(Use.OPTIMIZER_STATE)
        else:
            uses.append(Use.PARAMETERS if _is_real(each) else Use.STATE)
    return uses if Use.PARAMETERS in uses else None


class _Readers:
    """Finds what reads the arguments of a program, also inside fusions."""

    def __init__(self, module: HloModule, entry: HloComputation) -> None:
        self._module = module
        self._users = _users(entry)
        self._instructions = {each.id: each for each in entry.instructions}
        self._results = list(_returned(self._instructions, entry.root, 0))
        self._known: dict[int, tuple[HloInstruction, ...]] = {}
        self.trains = trains(module)

    def first(self, argument: HloInstruction) -> str:
        """Return the path of the first instruction that reads an argument."""
        readers = self.of(argument)
        forward = [reader for reader in readers if BACKWARD not in reader.op_name]
        inside = [reader for reader in forward if FORWARD in reader.op_name]
        found = next(iter(inside or forward or readers), None)
        return "" if found is None else found.path

    def is_read_forward(self, argument: HloInstruction) -> bool:
        """Return whether the forward pass reads an argument."""
        return any(FORWARD in reader.op_name for reader in self.of(argument))

    def is_returned(self, argument: HloInstruction) -> bool:
        """Return whether a result of its shape is an argument or is made from it directly."""
        return any(
            result.id == argument.id
            or (
                argument.id in result.operands
                and argument.shape in (*result.shape.arrays(), result.shape)
            )
            for result in self._results
        )

    def of(self, argument: HloInstruction) -> tuple[HloInstruction, ...]:
        """Return the instructions of ops that read an argument, in their order."""
        if argument.id not in self._known:
            self._known[argument.id] = tuple(self._read(self._users, argument.id, 0))
        return self._known[argument.id]

    def _read(
        self, users: Mapping[int, Sequence[HloInstruction]], number: int, depth: int
    ) -> Iterator[HloInstruction]:
        if depth > _MOST_STEPS:
            return
        for user in users.get(number, ()):
            if user.opcode == "fusion" and user.called:
                yield from self._read_inside(user, number, depth)
            else:
                if "/" in user.op_name:
                    yield user
                if user.opcode in _PASSING:
                    yield from self._read(users, user.id, depth + 1)

    def _read_inside(
        self, fusion: HloInstruction, number: int, depth: int
    ) -> Iterator[HloInstruction]:
        computation = self._module.computations.get(fusion.called[0])
        if computation is None:
            return
        users = _users(computation)
        places = {at for at, operand in enumerate(fusion.operands) if operand == number}
        for inner in computation.instructions:
            if inner.opcode == "parameter" and inner.parameter in places:
                yield from self._read(users, inner.id, depth + 1)


def results(module: HloModule) -> tuple[HloInstruction, ...]:
    """Return the instructions that make the results of a program."""
    entry = module.computations.get(module.entry)
    if entry is None:
        return ()
    instructions = {each.id: each for each in entry.instructions}
    return tuple(_returned(instructions, entry.root, 0))


def _returned(
    instructions: Mapping[int, HloInstruction], number: int, depth: int
) -> Iterator[HloInstruction]:
    found = instructions.get(number)
    if found is None or depth > _MOST_STEPS:
        return
    if found.opcode == "tuple" or found.opcode in _PASSING:
        for operand in found.operands:
            yield from _returned(instructions, operand, depth + 1)
        return
    yield found


def _users(computation: HloComputation) -> dict[int, list[HloInstruction]]:
    """Return the instructions that read each one, by its id."""
    found: dict[int, list[HloInstruction]] = {}
    for instruction in computation.instructions:
        for operand in dict.fromkeys(instruction.operands):
            found.setdefault(operand, []).append(instruction)
    return found
