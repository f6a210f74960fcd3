"""Bytes that instructions of XLA read and write, each against a value worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.golden import golden
from tests.support.hlo import instruction, module
from tfprobe.analysis.ops.accessed_bytes import ProgramBytes
from tfprobe.errors import Missing
from tfprobe.formats.xspace import ran_programs, read
from tfprobe.profile.hlo import HloModule


def of_last(program: HloModule) -> int | Missing:
    return ProgramBytes(program).of(program.computations[program.entry].instructions[-1])


def of(made: str, opcode: str, *given: str, **more: Any) -> int | Missing:
    """Return the bytes that an instruction accesses with operands of these shapes."""
    names = [f"p{at}" for at in range(len(given))]
    parameters = [
        instruction(name, "parameter", text) for name, text in zip(names, given, strict=True)
    ]
    return of_last(module([*parameters, instruction("it", opcode, made, *names, **more)]))


@pytest.mark.parametrize(
    ("opcode", "made", "given", "expected"),
    [
        ("add", "f32[3,4]", ("f32[3,4]", "f32[3,4]"), 3 * 48),
        ("dot", "bf16[3,4]", ("bf16[3,5]", "bf16[5,4]"), 2 * (15 + 20 + 12)),
        ("convert", "bf16[3,4]", ("f32[3,4]",), 48 + 24),
        ("reduce", "f32[3]", ("f32[3,4]", "f32[]"), 12 + 48 + 4),
        ("sort", "(f32[9], s32[9])", ("f32[9]", "s32[9]"), 4 * 36),
        ("all-reduce-start", "(f32[9], f32[9])", ("f32[9]",), 72),
        ("all-reduce-done", "f32[9]", ("(f32[9], f32[9])",), 0),
        ("parameter", "f32[9]", (), 0),
        ("bitcast", "f32[9]", ("f32[3,3]",), 0),
    ],
)
def test_operands_and_results(opcode: str, made: str, given: Any, expected: int) -> None:
    assert of(made, opcode, *given) == expected


@pytest.mark.parametrize(
    ("opcode", "made", "given", "expected"),
    [
        ("dynamic-slice", "f32[2,4]", ("f32[100,4]", "s32[]", "s32[]"), 32 + 8 + 32),
        ("slice", "f32[2,4]", ("f32[100,4]",), 64),
        ("gather", "f32[2,4]", ("f32[100,4]", "s32[2]"), 32 + 8 + 32),
        ("dynamic-update-slice", "f32[100,4]", ("f32[100,4]", "f32[2,4]", "s32[]"), 32 + 4 + 32),
        ("scatter", "f32[100,4]", ("f32[100,4]", "s32[2]", "f32[2,4]"), 32 + 8 + 32 + 32),
    ],
)
def test_slices(opcode: str, made: str, given: Any, expected: int) -> None:
    """A row of a table costs the row, whatever the size of the table."""
    assert of(made, opcode, *given) == expected


def fused(*inside: Any, given: tuple[str, ...], made: str) -> int | Missing:
    parameters = [instruction(f"p{at}", "parameter", text) for at, text in enumerate(given)]
    names = [name for name, *_ in parameters]
    whole = instruction("it", "fusion", made, *names, called=("inside",))
    return of_last(module([*parameters, whole], inside=inside))


TABLE = instruction("q0", "parameter", "f32[100,4]")
AT = instruction("q1", "parameter", "s32[]", parameter=1)
ROWS = instruction("rows", "dynamic-slice", "f32[2,4]", "q0", "q1")


def test_values_inside_a_fusion() -> None:
    """They stay in registers: only operands and the result are in memory."""
    given = instruction("q0", "parameter", "f32[3,4]")
    first = instruction("first", "sine", "f32[3,4]", "q0")
    last = instruction("last", "cosine", "f32[3,4]", "first")
    assert fused(given, first, last, given=("f32[3,4]",), made="f32[3,4]") == 96


def test_slices_inside_a_fusion() -> None:
    made = instruction("made", "sine", "f32[2,4]", "rows")
    shapes = {"given": ("f32[100,4]", "s32[]"), "made": "f32[2,4]"}
    assert fused(TABLE, AT, ROWS, made, **shapes) == 32 + 4 + 32

    # Something else reads all of the table.
    shapes["made"] = "(f32[2,4], f32[100,4])"
    whole = instruction("whole", "sine", "f32[100,4]", "q0")
    both = instruction("both", "tuple", "(f32[2,4], f32[100,4])", "rows", "whole")
    assert fused(TABLE, AT, ROWS, whole, both, **shapes) == 1600 + 4 + 32 + 1600


def test_updates_inside_a_fusion() -> None:
    """They happen in place: what stays as it was is neither read nor written."""
    update = instruction("update", "parameter", "f32[2,4]", parameter=1)
    at = instruction("at", "parameter", "s32[]", parameter=2)
    made = instruction("made", "dynamic-update-slice", "f32[100,4]", "q0", "update", "at")
    found = fused(
        TABLE, update, at, made, given=("f32[100,4]", "f32[2,4]", "s32[]"), made="f32[100,4]"
    )
    assert found == 32 + 4 + 32


def calling(opcode: str, *called: str, config: bytes = b"") -> int | Missing:
    body = [
        instruction("x", "parameter", "f32[3,4]"),
        instruction("made", "sine", "f32[3,4]", "x"),
    ]
    again = [instruction("again", "call", "f32[]", called=("again",))]
    other = [instruction("two", "constant", "f32[]")]
    whole = instruction("it", opcode, "f32[3,4]", called=called, config=config)
    return of_last(module([whole], body=body, other=other, again=again))


def test_instructions_that_run_others() -> None:
    """They are asked only where those have no time of their own."""
    turns = json.dumps({"known_trip_count": {"n": "7"}}).encode()
    assert calling("call", "body") == 96
    assert calling("while", "body", "other", config=turns) == 7 * 96
    assert isinstance(calling("while", "body", "other"), Missing)
    assert calling("conditional", "body", "body") == 96
    assert isinstance(calling("conditional", "body", "other"), Missing)
    assert isinstance(calling("call", "again"), Missing)
    assert isinstance(calling("call", "nowhere"), Missing)


def test_functions_of_libraries() -> None:
    """The work space behind the result is not what they read or write."""
    made, given = "(f32[3,4], s8[4194304])", ("f32[3,5]", "f32[5,4]")
    assert of(made, "custom-call", *given, target="__cublas$gemm") == 4 * (15 + 20 + 12)
    assert isinstance(of(made, "custom-call", *given, target="my_kernel"), Missing)
    told = json.dumps({"custom_call_config": {"cost_estimate": {"bytes_accessed": "77"}}}).encode()
    assert of(made, "custom-call", *given, target="tpu_custom_call", config=told) == 77


@pytest.mark.parametrize(
    ("made", "given"),
    [
        ("f32[3,-4]", ("f32[3,4]",)),
        ("unknown[3]", ("f32[3]",)),
        ("s4[3]", ("s4[3]",)),
        ("f32[1000000,1000000,1000000]", ("f32[3]",)),
    ],
)
def test_sizes_that_nobody_knows(made: str, given: Any) -> None:
    assert isinstance(of(made, "copy", *given), Missing)


def test_damaged_programs() -> None:
    lost = instruction("it", "add", "f32[3]", "nobody", "nothing")
    assert isinstance(of_last(module([lost])), Missing)
    empty = instruction("it", "fusion", "f32[3]", called=("nowhere",))
    assert isinstance(of_last(module([empty])), Missing)


def test_a_real_step() -> None:
    """XLA says 26,614,936, with the 160 bytes of the tuple of results."""
    content = golden("frameworks", "jax_cpu_window_one_step.xplane.pb").read_bytes()
    (program,) = ran_programs(content, read(content).programs)

    accessed = ProgramBytes(program.module)

    entry = program.module.computations[program.module.entry]
    amounts = [accessed.of(each) for each in entry.instructions]
    assert sum(each for each in amounts if isinstance(each, int)) == 26_614_936 - 160
    assert all(isinstance(each, int) for each in amounts)
