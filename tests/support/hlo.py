"""Programs of XLA as tests write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tfprobe.formats.xspace.op_names import op_path
from tfprobe.profile.hlo import (
    TUPLE,
    ConvolutionDimensions,
    HloComputation,
    HloInstruction,
    HloModule,
    HloShape,
    WindowDimension,
)

# Images with channels last, and a filter whose last dimension is that of the output's channels.
IMAGES = ConvolutionDimensions(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))


def shape(text: str) -> HloShape:
    """Return a shape such as "f32[3,4]", "pred[]" or "(f32[3], s32[])"."""
    if text.startswith("("):
        parts = re.findall(r"\w+\[[^]]*\]", text)
        return HloShape(TUPLE, parts=tuple(shape(part) for part in parts))
    dtype, _, sizes = text.rstrip("]").partition("[")
    return HloShape(dtype, tuple(int(size) for size in sizes.split(",") if size))


def instruction(name: str, opcode: str, made: str, *operands: str, **more: Any) -> Any:
    """Return an instruction whose operands and computations are named; Any: not yet resolved."""
    return name, opcode, shape(made), operands, more


def module(entry: Sequence[Any], **computations: Sequence[Any]) -> HloModule:
    """Return a program of these instructions; `called` names computations."""
    numbers = {name: at for at, name in enumerate(("entry", *computations), start=1)}
    ids: dict[str, int] = {}
    for given in (entry, *computations.values()):
        for name, *_ in given:
            ids[name] = len(ids) + 100
    made = {}
    for name, given in {"entry": entry, **computations}.items():
        instructions = []
        for own, opcode, result, operands, more in given:
            found = HloInstruction(
                id=ids[own],
                name=own,
                opcode=opcode,
                shape=result,
                operands=tuple(ids.get(operand, -1) for operand in operands),
                called=tuple(numbers.get(called, -1) for called in more.pop("called", ())),
            )
            found = replace(found, **more)
            instructions.append(replace(found, path=op_path(found.op_name)))
        root = instructions[-1].id if instructions else 0
        made[numbers[name]] = HloComputation(numbers[name], name, tuple(instructions), root)
    return HloModule("jit_step", made, 1)


def window(*sizes: int, **more: int) -> tuple[WindowDimension, ...]:
    """Return a window of these sizes; the rest is the same in all of its dimensions."""
    return tuple(WindowDimension(size, **more) for size in sizes)
