"""Float operations of instructions of XLA, each against a value worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.golden import golden
from tests.support.hlo import IMAGES, instruction, module, shape, window
from tfprobe.analysis.ops.flops.hlo import MOVEMENT, ProgramFlops
from tfprobe.errors import Missing
from tfprobe.formats.xspace import ran_programs, read
from tfprobe.profile.hlo import DotDimensions, HloInstruction, HloModule

MATRICES = DotDimensions((1,), (0,))
DOT = {"dot": MATRICES}
PRODUCT = 2 * 3 * 5 * 4


def last(program: HloModule) -> HloInstruction:
    return program.computations[program.entry].instructions[-1]


def of(made: str, opcode: str, *given: str, **more: Any) -> int | Missing:
    """Return the float operations of an instruction with operands of these shapes."""
    names = [f"p{at}" for at in range(len(given))]
    parameters = [
        instruction(name, "parameter", text) for name, text in zip(names, given, strict=True)
    ]
    applied = {
        "add": _applied("add", "f32[]"),
        "keep": [instruction("new", "parameter", "f32[]")],
        "less": _applied("compare", "pred[]"),
    }
    program = module([*parameters, instruction("it", opcode, made, *names, **more)], **applied)
    return ProgramFlops(program).of(last(program))


def _applied(opcode: str, made: str) -> list[Any]:
    operands = [f"{opcode}_{side}" for side in "ab"]
    parameters = [instruction(name, "parameter", "f32[]") for name in operands]
    return [*parameters, instruction(f"the_{opcode}", opcode, made, *operands)]


@pytest.mark.parametrize(
    ("made", "given", "dimensions", "expected"),
    [
        ("f32[3,4]", ("f32[3,5]", "f32[5,4]"), MATRICES, PRODUCT),
        ("f32[3,4]", ("f32[5,3]", "f32[4,5]"), DotDimensions((0,), (1,)), PRODUCT),
        ("bf16[3,4]", ("bf16[3,5]", "bf16[5,4]"), MATRICES, PRODUCT),
        ("f32[7,3,4]", ("f32[7,3,5]", "f32[7,5,4]"), DotDimensions((2,), (1,), (0,), (0,)), 840),
        ("f32[4]", ("f32[5,6]", "f32[5,6,4]"), DotDimensions((0, 1), (0, 1)), 2 * 30 * 4),
        ("f32[]", ("f32[5]", "f32[5]"), DotDimensions((0,), (0,)), 10),
        ("f32[3,4]", ("f32[3]", "f32[4]"), DotDimensions((), ()), 12),
        ("f32[3,4]", ("f32[3,1]", "f32[1,4]"), MATRICES, 2 * 12),
        ("f32[0,4]", ("f32[0,5]", "f32[5,4]"), MATRICES, 0),
    ],
)
def test_products(made: str, given: Any, dimensions: DotDimensions, expected: int) -> None:
    """A multiplication and an addition for each pair that meets; an outer product adds nothing."""
    assert of(made, "dot", *given, dot=dimensions) == expected


@pytest.mark.parametrize(
    ("made", "given", "dimensions"),
    [
        ("f32[3,5]", ("f32[3,5]", "f32[5,4]"), MATRICES),
        ("f32[3,4]", ("f32[3,6]", "f32[5,4]"), MATRICES),
        ("f32[3,4]", ("f32[3,5]", "f32[5,4]"), DotDimensions((2,), (0,))),
        ("f32[3,4]", ("f32[3,5]", "f32[5,4]"), DotDimensions((-1,), (0,))),
        ("f32[3,4]", ("f32[3,5]", "f32[5,4]"), DotDimensions((1, 1), (0, 0))),
        ("f32[3,4]", ("f32[3,5]",), MATRICES),
        ("f32[3,4]", ("f32[3,-5]", "f32[-5,4]"), MATRICES),
        ("f32[3,4]", ("f32[3,5]", "f32[5,4]"), None),
        ("f32[1000000,1000000]", ("f32[1000000,5000]", "f32[5000,1000000]"), MATRICES),
    ],
)
def test_products_that_cannot_be(made: str, given: Any, dimensions: DotDimensions | None) -> None:
    """A damaged program has no number rather than a wrong one."""
    assert isinstance(of(made, "dot", *given, dot=dimensions), Missing)


# Of 2 images 6x6 with 3 channels by 3x3 into 8 channels of 4x4.
FORWARD = 2 * (2 * 4 * 4 * 8) * (3 * 3 * 3)


def test_convolutions_and_their_gradients() -> None:
    """The gradients, for which XLA dilates and pads, take as many products as the convolution."""
    whole = {"convolution": IMAGES, "window": window(3, 3)}
    assert of("f32[2,4,4,8]", "convolution", "f32[2,6,6,3]", "f32[3,3,3,8]", **whole) == FORWARD

    padded = window(3, 3, padding_low=2, padding_high=2)
    to_input = {"convolution": IMAGES, "window": padded}
    found = of("f32[2,6,6,3]", "convolution", "f32[2,4,4,8]", "f32[3,3,8,3]", **to_input)
    assert found == FORWARD

    roles = replace(IMAGES, input_batch=3, input_feature=0, kernel_input_feature=0)
    roles = replace(roles, kernel_spatial=(1, 2), output_batch=2, output_spatial=(0, 1))
    to_filter = {"convolution": roles, "window": window(4, 4)}
    found = of("f32[3,3,3,8]", "convolution", "f32[2,6,6,3]", "f32[2,4,4,8]", **to_filter)
    assert found == FORWARD


def test_convolutions_with_strides() -> None:
    """The holes between the values of a dilated gradient are no data."""
    strided = {"convolution": IMAGES, "window": window(3, 3, stride=2)}
    forward = 2 * (2 * 7 * 7 * 8) * (3 * 3 * 4)
    assert of("f32[2,7,7,8]", "convolution", "f32[2,16,16,4]", "f32[3,3,4,8]", **strided) == forward

    dilated = window(3, 3, base_dilation=2, padding_low=2, padding_high=3)
    to_input = {"convolution": IMAGES, "window": dilated}
    found = of("f32[2,16,16,4]", "convolution", "f32[2,7,7,8]", "f32[3,3,8,4]", **to_input)
    assert found == forward


def test_convolutions_of_padded_images() -> None:
    """Padding counts as data, as it does for TensorFlow's ops."""
    same = {"convolution": IMAGES, "window": window(3, 3, padding_low=1, padding_high=1)}

    found = of("f32[4,16,16,8]", "convolution", "f32[4,16,16,3]", "f32[3,3,3,8]", **same)

    assert found == 2 * (4 * 16 * 16 * 8) * 27


def test_convolutions_in_groups() -> None:
    """Of a depthwise convolution each output sees one channel, of its filter's gradient, too."""
    same = window(3, 3, padding_low=1, padding_high=1)
    groups = {"convolution": IMAGES, "window": same, "feature_groups": 8}
    found = of("f32[4,16,16,8]", "convolution", "f32[4,16,16,8]", "f32[3,3,1,8]", **groups)
    assert found == 2 * (4 * 16 * 16 * 8) * 9

    roles = replace(IMAGES, input_batch=3, input_feature=0, kernel_input_feature=0)
    roles = replace(roles, kernel_spatial=(1, 2), output_batch=2, output_spatial=(0, 1))
    wide = window(16, 16, padding_low=1, padding_high=1)
    batches = {"convolution": roles, "window": wide, "batch_groups": 8}
    found = of("f32[3,3,1,8]", "convolution", "f32[4,16,16,8]", "f32[4,16,16,8]", **batches)
    assert found == 2 * (4 * 16 * 16 * 8) * 9


@pytest.mark.parametrize(
    ("made", "given", "more"),
    [
        ("f32[2,4,4,8]", ("f32[2,6,6,3]", "f32[3,3,4,8]"), {}),
        ("f32[2,4,4,8]", ("f32[3,6,6,3]", "f32[3,3,3,8]"), {}),
        ("f32[2,4,4,9]", ("f32[2,6,6,3]", "f32[3,3,3,8]"), {}),
        ("f32[2,4,4,8]", ("f32[2,6,6,3]", "f32[5,5,3,8]"), {}),
        ("f32[2,4,4,8]", ("f32[2,6,6,3]", "f32[3,3,3,8]"), {"window": window(3)}),
        ("f32[2,4,4,8]", ("f32[2,6,6,3]", "f32[3,3,3,8]"), {"convolution": None}),
        (
            "f32[2,4,4,8]",
            ("f32[2,6,6,3]", "f32[3,3,3,8]"),
            {"convolution": replace(IMAGES, output_spatial=(1, 7))},
        ),
    ],
)
def test_convolutions_that_cannot_be(made: str, given: Any, more: Any) -> None:
    roles = {"convolution": IMAGES, "window": window(3, 3)}
    assert isinstance(of(made, "convolution", *given, **{**roles, **more}), Missing)


@pytest.mark.parametrize(
    ("opcode", "given", "expected"),
    [
        ("add", ("f32[3,4]", "f32[3,4]"), 12),
        ("tanh", ("f32[3,4]",), 12),
        ("rsqrt", ("f32[3,4]",), 24),
        ("logistic", ("f32[3,4]",), 48),
        ("select", ("pred[]", "f32[3,4]", "f32[3,4]"), 12),
        ("clamp", ("f32[]", "f32[3,4]", "f32[]"), 24),
        ("and", ("f32[3,4]", "f32[3,4]"), 12),
        ("convert", ("bf16[3,4]",), 0),
        ("broadcast", ("f32[4]",), 0),
        ("transpose", ("f32[4,3]",), 0),
    ],
)
def test_elements(opcode: str, given: Any, expected: int) -> None:
    """One operation each, as for TensorFlow's ops; a cast moves data."""
    assert of("f32[3,4]", opcode, *given) == expected


def test_elements_of_other_sizes() -> None:
    assert isinstance(of("f32[3,4]", "add", "f32[3,5]", "f32[3,5]"), Missing)
    assert isinstance(of("f32[3,4]", "add"), Missing)


def test_folds() -> None:
    """Folding n values takes n - 1 applications, of a window and of an array."""
    add = {"called": ("add",)}
    assert of("f32[3]", "reduce", "f32[3,5]", "f32[]", **add) == 15 - 3
    pool = {**add, "window": window(1, 2, 2, 1)}
    assert of("f32[2,4,4,3]", "reduce-window", "f32[2,8,8,3]", "f32[]", **pool) == 96 * 3
    assert isinstance(of("f32[3,5]", "reduce", "f32[3]", "f32[]", **add), Missing)
    assert isinstance(of("f32[3]", "reduce", "f32[3,5]", "f32[]"), Missing)


def test_scatters() -> None:
    """Each update is applied once; replacing a value computes nothing."""
    shapes = ("f32[9,4]", "s32[3,1]", "f32[3,4]")
    assert of("f32[9,4]", "scatter", *shapes, called=("add",)) == 12
    assert of("f32[9,4]", "scatter", *shapes, called=("keep",)) == 0


def test_gradients_of_pools() -> None:
    """Find the largest of each window, and add to it."""
    pool = {"called": ("less", "add"), "window": window(1, 2, 2, 1)}

    found = of("f32[2,8,8,3]", "select-and-scatter", "f32[2,8,8,3]", "f32[2,4,4,3]", **pool)

    assert found == 96 * (3 + 1)


def test_sorts_and_transforms() -> None:
    assert of("f32[5,1000]", "sort", "f32[5,1000]", dimensions=(1,)) == 5000 * 10
    assert isinstance(of("f32[5,1000]", "sort", "f32[5,1000]", dimensions=(2,)), Missing)
    assert of("c64[3,8]", "fft", "c64[3,8]", fft_length=(8,)) == 5 * 3 * 8 * 3
    assert of("c64[3,5]", "fft", "f32[3,8]", fft_length=(8,)) == 5 * 3 * 8 * 3 / 2
    assert isinstance(of("c64[5]", "fft", "f32[8]", fft_length=(2, 2)), Missing)


def test_sums_over_devices() -> None:
    assert of("f32[3,4]", "all-reduce", "f32[3,4]", called=("add",)) == 12
    assert of("f32[6,4]", "all-gather", "f32[3,4]") == 0


BODY = [
    instruction("x", "parameter", "f32[3,5]"),
    instruction("y", "parameter", "f32[5,4]"),
    instruction("product", "dot", "f32[3,4]", "x", "y", **DOT),
    instruction("sines", "sine", "f32[3,4]", "product"),
]


def body(prefix: str) -> list[Any]:
    """The body with names of its own."""
    return [
        (prefix + name, opcode, made, tuple(prefix + operand for operand in operands), {**more})
        for name, opcode, made, operands, more in BODY
    ]


CONDITION = [
    instruction("now", "parameter", "s32[]"),
    instruction("end", "constant", "s32[]"),
    instruction("goes_on", "compare", "pred[]", "now", "end"),
]


def calling(opcode: str, *called: str, config: bytes = b"") -> int | Missing:
    parts = {"one": body("one_"), "other": body("other_"), "condition": list(CONDITION)}
    parts["none"] = []
    program = module([instruction("it", opcode, "f32[3,4]", called=called, config=config)], **parts)
    return ProgramFlops(program).of(last(program))


def trips(number: object) -> bytes:
    return json.dumps({"known_trip_count": {"n": number}}).encode()


def test_computations_inside_instructions() -> None:
    """A fusion or a call does what its computation does."""
    assert calling("fusion", "one") == PRODUCT + 12
    assert calling("call", "one") == PRODUCT + 12


def test_loops_and_branches() -> None:
    """A loop counts each of its turns, if the compiler knows them; a branch only if all agree."""
    assert calling("while", "one", "condition", config=trips("7")) == 7 * (PRODUCT + 12 + 1)
    assert isinstance(calling("while", "one", "condition"), Missing)
    assert calling("while", "none", "none") == 0
    assert calling("conditional", "one", "other") == PRODUCT + 12
    assert isinstance(calling("conditional", "one", "none"), Missing)


@pytest.mark.parametrize("number", ["", "x", "-1", -1, 1.5, None, True, [7], "9" * 5000])
def test_damaged_numbers_of_turns(number: object) -> None:
    assert isinstance(calling("while", "one", "condition", config=trips(number)), Missing)


def test_computations_that_call_themselves() -> None:
    """Only a damaged program has them: they neither hang nor count."""
    program = module(
        [instruction("it", "call", "f32[]", called=("loop",))],
        loop=[instruction("again", "call", "f32[]", called=("loop",))],
    )
    assert isinstance(ProgramFlops(program).of(last(program)), Missing)

    deep = {
        f"c{at}": [instruction(f"i{at}", "call", "f32[]", called=(f"c{at + 1}",))]
        for at in range(2000)
    }
    deep["c2000"] = []
    program = module([instruction("it", "call", "f32[]", called=("c0",))], **deep)
    assert isinstance(ProgramFlops(program).of(last(program)), Missing)


CUBLAS = {
    "gemm_backend_config": {
        "beta": 0,
        "dot_dimension_numbers": {
            "lhs_contracting_dimensions": ["1"],
            "rhs_contracting_dimensions": ["0"],
            "lhs_batch_dimensions": [],
            "rhs_batch_dimensions": [],
        },
        "epilogue": "DEFAULT",
    }
}


def library(target: str, made: str, *given: str, config: Any = None, **more: Any) -> int | Missing:
    content = json.dumps(config).encode() if config is not None else b""
    return of(made, "custom-call", *given, target=target, config=content, **more)


def test_products_of_cublas() -> None:
    """The product, and what it adds to each element; behind the result there is work space."""
    made, given = "(f32[3,4], s8[4194304])", ("f32[3,5]", "f32[5,4]")
    assert library("__cublas$gemm", made, *given, config=CUBLAS) == PRODUCT
    gemm = {**CUBLAS["gemm_backend_config"], "epilogue": "BIAS_RELU", "beta": 1}
    fused = {"gemm_backend_config": gemm}
    assert library("__cublas$lt$matmul", made, *given, config=fused) == PRODUCT + 3 * 12
    strange = {"gemm_backend_config": {**gemm, "epilogue": "BIAS_WHATEVER"}}
    assert isinstance(library("__cublas$lt$matmul", made, *given, config=strange), Missing)
    assert isinstance(library("__cublas$gemm", made, *given), Missing)
    assert isinstance(library("__cublas$gemm", made, "f32[3,5]", config=CUBLAS), Missing)


def test_products_of_onednn() -> None:
    config = {"onednn_matmul_config": {"transpose_a": False, "fused_ops": ["BINARY_ADD"]}}
    given = ("f32[3,5]", "f32[5,4]", "f32[3,4]")
    assert library("__onednn$matmul", "f32[3,4]", *given, config=config) == PRODUCT + 12
    config = {"onednn_matmul_config": {"transpose_a": True, "fusions": {"ops": ["RELU"]}}}
    given = ("f32[5,3]", "f32[5,4]")
    assert library("__onednn$matmul", "f32[3,4]", *given, config=config) == PRODUCT + 12
    assert isinstance(library("__onednn$matmul", "f32[3,4]", *given), Missing)


@pytest.mark.parametrize(
    ("target", "made", "given"),
    [
        ("__cudnn$convForward", "f32[2,4,4,8]", ("f32[2,6,6,3]", "f32[3,3,3,8]")),
        ("__cudnn$convBackwardInput", "f32[2,6,6,3]", ("f32[2,4,4,8]", "f32[3,3,3,8]")),
        ("__cudnn$convBackwardFilter", "f32[3,3,3,8]", ("f32[2,6,6,3]", "f32[2,4,4,8]")),
    ],
)
def test_convolutions_of_cudnn(target: str, made: str, given: Any) -> None:
    """The dimension numbers of the gradients are those of the convolution."""
    roles = {"convolution": IMAGES, "window": window(3, 3)}

    assert library(target, made.join(("(", ", u8[0])")), *given, **roles) == FORWARD


def test_kernels_of_the_job() -> None:
    """Their author may say what they cost; else nobody knows."""
    told = {"custom_call_config": {"cost_estimate": {"flops": "1234"}}}
    assert library("tpu_custom_call", "f32[3]", "f32[3]", config=told) == 1234
    unknown = library("triton_kernel_call", "f32[3]", "f32[3]")
    assert isinstance(unknown, Missing)
    assert "triton_kernel_call" in unknown.reason
    assert library("Sharding", "f32[3]", "f32[3]") == 0


def test_instructions_that_nobody_knows() -> None:
    found = of("f32[3]", "ragged-dot", "f32[3]", "f32[3]")
    assert found == Missing("there is no formula for the instruction ragged-dot")
    assert "dot" not in MOVEMENT


def test_sizes_that_are_known_only_when_it_runs() -> None:
    dynamic = replace(shape("f32[3]"), is_dynamic=True)
    program = module([instruction("x", "parameter", "f32[3]"), ("it", "tanh", dynamic, ("x",), {})])
    assert isinstance(ProgramFlops(program).of(last(program)), Missing)


@pytest.mark.parametrize("name", ["jax_cpu_flax_mlp_3steps", "jax_cpu_window_one_step"])
def test_a_real_step(name: str) -> None:
    """The products of an MLP are exact; with them, all of the step is near what XLA says.

    XLA counts 278,358,272 without roots, exponentials, logarithms and powers, of which it counts
    400,780. Of casts, which move data, and of single numbers, it counts a few more and less.
    """
    content = golden("frameworks", f"{name}.xplane.pb").read_bytes()

    (program,) = ran_programs(content, read(content).programs)

    counted = ProgramFlops(program.module)
    products = [
        counted.of(each)
        for computation in program.module.computations.values()
        for each in computation.instructions
        if each.opcode == "dot"
    ]
    assert len(products) == 8
    assert sum(made for made in products if isinstance(made, int)) == 272_367_616
    assert counted.total() == 278_358_272 + 400_780 + 7
