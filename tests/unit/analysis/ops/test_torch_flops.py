"""Float operations of PyTorch's ops, from the shapes in a trace."""

from __future__ import annotations

import pytest

from tfprobe.analysis.ops.flops.torch_ops import FORMULAS, MOVEMENT, torch_flops
from tfprobe.errors import Missing
from tfprobe.profile.torch_call import TorchCall

Q = (2, 4, 32, 16)
IMAGE, FILTER = (4, 3, 64, 64), (8, 3, 7, 7)
# 64 + 2 x 3 - 7 over strides of 2, and the first.
MADE = (4, 8, 32, 32)


def call(*sizes, values=(), calls=(), lists=()):
    return TorchCall(sizes, lists, (), tuple(values), frozenset(calls))


@pytest.mark.parametrize(
    ("op", "told", "expected"),
    [
        ("aten::mm", call((128, 256), (256, 512)), 2 * 128 * 256 * 512),
        ("aten::addmm", call((512,), (128, 256), (256, 512), (), ()), 2 * 128 * 256 * 512),
        ("aten::bmm", call((8, 3, 4), (8, 4, 5)), 2 * 8 * 3 * 4 * 5),
        ("aten::baddbmm", call((8, 3, 5), (8, 3, 4), (8, 4, 5)), 2 * 8 * 3 * 4 * 5),
        ("aten::linear", call((2, 7, 4), (5, 4), (5,)), 2 * 2 * 7 * 4 * 5),
        (
            "aten::convolution",
            call(
                IMAGE,
                FILTER,
                (),
                values=("", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1"),
            ),
            2 * 4 * 32 * 32 * 8 * 3 * 49,
        ),
        (
            "aten::mkldnn_convolution",
            call(IMAGE, FILTER, (), values=("", "", "", "[3, 3]", "[2, 2]", "[1, 1]", "1")),
            2 * 4 * 32 * 32 * 8 * 3 * 49,
        ),
        (
            "aten::convolution",
            call(
                (4, 8, 5, 5),
                (8, 6, 2, 2),
                (),
                values=("", "", "", "[2, 2]", "[0, 0]", "[1, 1]", "True", "[0, 0]", "1"),
            ),
            2 * 4 * 8 * 25 * 6 * 4,
        ),
        (
            "aten::convolution_backward",
            call(
                MADE,
                IMAGE,
                FILTER,
                values=(
                    *("", "", "", "", "[2, 2]", "[3, 3]", "[1, 1]"),
                    *("False", "[0, 0]", "1", "[False, True, False]"),
                ),
            ),
            2 * 4 * 32 * 32 * 8 * 3 * 49,
        ),
        ("aten::_scaled_dot_product_flash_attention", call(Q, Q, Q), 2 * 8 * 32 * 32 * 32),
        (
            "aten::_scaled_dot_product_flash_attention_backward",
            call(Q, Q, Q, Q),
            2 * 8 * 32 * 32 * 16 * 5,
        ),
        ("aten::_flash_attention_forward", call(*[(2, 32, 4, 16)] * 3), 2 * 8 * 32 * 32 * 32),
        ("aten::mul_", call((8, 1), (1, 5)), 40),
        ("aten::addcmul_", call((10,), (10,), (10,)), 30),
        ("aten::_foreach_add_", call((), lists=(((3, 4), (5,)),)), 17),
        ("aten::sum", call((4, 5), values=("", "[0]", "False", "")), 15),
        ("aten::sum", call((4, 5), values=("",)), 19),
        ("aten::native_batch_norm", call((2, 5), values=("",) * 5 + ("True",)), 70),
        ("aten::copy_", call((10,), (10,)), 0),
        (
            "aten::max_pool2d_with_indices",
            call((1, 1, 4, 4), values=("", "[2, 2]", "[]", "[0, 0]")),
            16,
        ),
    ],
)
def test_formulas(op, told, expected):
    """Products count two operations for each addition, all else one."""
    assert torch_flops(op, told) == expected


def test_an_op_that_calls_one_with_a_formula_computes_nothing_itself():
    """Else a convolution would count at each of its four levels."""
    product = call((2, 4), (5, 4))

    assert torch_flops("aten::linear", product) == 2 * 2 * 4 * 5
    assert torch_flops("aten::linear", call((2, 4), (5, 4), calls=["aten::addmm"])) == 0
    assert torch_flops("aten::new_op", call(calls=["aten::addmm"])) == 0
    assert torch_flops("AddmmBackward0", call(calls=["aten::mm"])) == 0


@pytest.mark.parametrize(
    ("op", "told", "reason"),
    [
        ("aten::new_op", call((4,)), "no formula"),
        ("aten::new_op", call((4,), calls=["aten::empty", "aten::view"]), "no formula"),
        ("aten::mm", TorchCall(), "no shapes"),
        ("aten::mm", call((2, 3), (4, 5)), "do not fit"),
        ("aten::convolution", call(IMAGE, FILTER, ()), "values of its arguments"),
        ("aten::mm", call((2**40, 2**40), (2**40, 2**40)), "no machine"),
        ("CompiledFunction", call((4,)), "compiled"),
    ],
)
def test_what_is_unknown_has_a_reason(op, told, reason):
    """It is never 0."""
    found = torch_flops(op, told)

    assert isinstance(found, Missing)
    assert reason in found.reason


def test_nothing_computes_and_moves():
    """An op is in one list."""
    assert not MOVEMENT & FORMULAS.keys()
