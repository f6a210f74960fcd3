"""Float operations of ops of PyTorch, from the shapes of their arguments.

The convention is that of all formulas here. An op that calls others computes nothing itself, unless
it has a formula and they have none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod

from tfprobe.analysis.ops.flops.call import UnknownOperands
from tfprobe.errors import Missing
from tfprobe.profile.torch_call import Sizes, TorchCall

# Thousands of larger numbers could not be added up in 64 bits.
_MOST = 2**50
_ATEN = "aten::"
_INTEGER = re.compile(r"-?\d{1,9}")
# Kernels that PyTorch compiled run in them, and are recorded on a GPU alone.
_COMPILED = re.compile(r"CompiledFunction|CompiledFxGraph|triton_|(?:graph_\d+_)?cpp_fused")
_NO_KERNELS = Missing("kernels that PyTorch compiled say nothing of what they compute")
_UNKNOWN_OP = Missing("there is no formula for this op")
# What only calls others: the engine of autograd, its functions, and wrappers.
_CALLING = re.compile(
    r"autograd::engine::evaluate_function|torch::autograd::|(?:\w+::)*\w*Backward\d*\Z"
    r"|TorchDynamo |Pregraph bytecode|AOTDispatcher |Torch-Compiled Region"
    r"|DistributedDataParallel\.|torch\.distributed\.|c10d::|detach\Z"
)


def torch_flops(op: str, call: TorchCall) -> int | Missing:
    """Return the float operations of one run of an op, or why they are unknown."""
    formula = _formula(op)
    if formula is not None and not any(_formula(name) is not None for name in call.calls):
        try:
            found = int(formula(call))
        except (UnknownOperands, IndexError) as exc:
            return Missing(str(exc) if isinstance(exc, UnknownOperands) else _NO_SHAPES)
        return found if 0 <= found <= _MOST else Missing("its shapes are those of no machine")
    if _COMPILED.match(op):
        return _NO_KERNELS
    if op in MOVEMENT or _CALLING.match(op):
        return 0
    if any(name not in MOVEMENT for name in call.calls):
        return 0  # what it calls counts
    return _UNKNOWN_OP


def _formula(op: str) -> _Formula | None:
    found = FORMULAS.get(op)
    # An op ends in "_" if it writes its result over its first argument.
    return found if found is not None else FORMULAS.get(op.removesuffix("_"))


_NO_SHAPES = "the trace has no shapes of its arguments"
_Formula = Callable[[TorchCall], float]


def _sizes(call: TorchCall, at: int) -> Sizes:
    """Return the sizes of an argument that must be a tensor with dimensions."""
    found = call.sizes[at] if at < len(call.sizes) else ()
    if not found:
        raise UnknownOperands(_NO_SHAPES)
    return found


def _elements(call: TorchCall, at: int = 0) -> int:
    """Return the elements of an argument, 1 for a scalar."""
    if at >= len(call.sizes):
        raise UnknownOperands(_NO_SHAPES)
    return prod(call.sizes[at])


def _result(call: TorchCall) -> int:
    """Return the elements of the result of an element-wise op: arguments are broadcast."""
    if not call.sizes:
        raise UnknownOperands(_NO_SHAPES)
    rank = max(map(len, call.sizes))
    padded = [(1,) * (rank - len(sizes)) + sizes for sizes in call.sizes]
    return prod(max(along) if 0 not in along else 0 for along in zip(*padded, strict=True))


def _product(left: int, right: int) -> _Formula:
    """Return the formula of a product of two arguments, matrices or batches of them."""

    def formula(call: TorchCall) -> float:
        one, other = _sizes(call, left), _sizes(call, right)
        if len(other) < 2:
            return 2 * prod(one)
        if len(one) < 1 or one[-1] != other[-2]:
            raise UnknownOperands("its shapes do not fit the op")
        return 2 * prod(one) * other[-1]

    return formula


def _linear(call: TorchCall) -> float:
    return 2 * prod(_sizes(call, 0)) * _sizes(call, 1)[0]


def _dot(call: TorchCall) -> float:
    return 2 * prod(_sizes(call, 0))


def _attention(*, is_backward: bool, first: int = 0, heads_last: bool = False) -> _Formula:
    """Return the formula of softmax(q k) v; the backward pass computes the first product again."""

    def formula(call: TorchCall) -> float:
        query, key, value = (_sizes(call, first + at) for at in range(3))
        if min(map(len, (query, key, value))) != 4:
            raise UnknownOperands("its shapes do not fit the op")
        length = 1 if heads_last else 2
        batch = query[0] * query[2 if heads_last else 1]
        scores = 2 * batch * query[length] * key[length]
        inner, outer = query[3], value[3]
        return scores * (3 * inner + 2 * outer if is_backward else inner + outer)

    return formula


def _integers(call: TorchCall, at: int) -> list[int]:
    text = call.values[at] if at < len(call.values) else ""
    return [int(number) for number in _INTEGER.findall(text)]


def _numbers(call: TorchCall, at: int, rank: int) -> list[int]:
    """Return an argument that is a number for each dimension."""
    found = _integers(call, at)
    if len(found) == 1:
        found *= rank
    if len(found) != rank:
        raise UnknownOperands("the trace has no strides and paddings of it")
    return found


def _is_true(call: TorchCall, at: int) -> bool:
    if at >= len(call.values) or call.values[at] not in ("True", "False"):
        raise UnknownOperands("the trace has no values of its arguments")
    return call.values[at] == "True"


def _convolution(*, padding: int, stride: int, dilation: int | None) -> _Formula:
    """Return the formula of a convolution with these positions of its arguments."""

    def formula(call: TorchCall) -> float:
        image, weight = _sizes(call, 0), _sizes(call, 1)
        rank = len(weight) - 2
        if rank < 1 or len(image) != len(weight):
            raise UnknownOperands("its shapes do not fit the op")
        outputs = 1
        dilations = [1] * rank if dilation is None else _numbers(call, dilation, rank)
        for size, taps, step, border, spread in zip(
            image[2:],
            weight[2:],
            _numbers(call, stride, rank),
            _numbers(call, padding, rank),
            dilations,
            strict=True,
        ):
            outputs *= (size + 2 * border - spread * (taps - 1) - 1) // max(step, 1) + 1
        return 2 * image[0] * outputs * prod(weight)

    return formula


def _transposed(call: TorchCall) -> float:
    """Each element of the input meets all weights of its channel."""
    image, weight = _sizes(call, 0), _sizes(call, 1)
    return 2 * prod(image) * prod(weight[1:])


def _any_convolution(call: TorchCall) -> float:
    if _is_true(call, 6):
        return _transposed(call)
    return _convolution(stride=3, padding=4, dilation=5)(call)


def _convolution_backward(call: TorchCall) -> float:
    """The gradients of the input and of the weights are as much as the convolution, each."""
    made, image, weight = (_sizes(call, at) for at in range(3))
    if len(call.values) < 11:
        raise UnknownOperands("the trace does not say which gradients it computes")
    wanted = re.findall(r"True|False|1|0", call.values[10])[:2]
    count = sum(text in ("True", "1") for text in wanted)
    if len(wanted) < 2:
        raise UnknownOperands("the trace does not say which gradients it computes")
    whole = prod(image) if _is_true(call, 7) else prod(made)
    sums = 1 if call.values[10].rstrip("]) ").endswith(("True", "1")) else 0
    return count * 2 * whole * prod(weight[1:]) + sums * prod(made)


def _pool(call: TorchCall) -> float:
    """Compare or add the elements of each window."""
    image = _sizes(call, 0)
    window = _integers(call, 1)
    rank = len(image) - 2
    window = window * rank if len(window) == 1 else window
    if rank < 1 or len(window) != rank or len(call.values) < 4:
        raise UnknownOperands("the trace has no sizes of its window")
    steps = window if call.values[2] in ("", "[]") else _numbers(call, 2, rank)
    borders = _numbers(call, 3, rank)
    outputs = 1
    for size, taps, step, border in zip(image[2:], window, steps, borders, strict=True):
        outputs *= (size + 2 * border - taps) // max(step, 1) + 1
    return image[0] * image[1] * outputs * prod(window)


def _sum(call: TorchCall) -> float:
    sizes = call.sizes[0] if call.sizes else ()
    whole = prod(sizes)
    if len(call.values) < 3:
        return whole - 1
    summed = {at % max(len(sizes), 1) for at in _integers(call, 1)}
    kept = prod(size for at, size in enumerate(sizes) if at not in summed) if summed else 1
    return whole - kept


def _batch_norm(call: TorchCall) -> float:
    return (7 if _is_true(call, 5) else 3) * _elements(call)


def _batch_norm_backward(call: TorchCall) -> float:
    return (9 if _is_true(call, 7) else 6) * _elements(call)


def _norm(call: TorchCall) -> float:
    if len(call.values) < 2 or call.values[1] not in ("2", "2.", "2.0"):
        raise UnknownOperands("the trace does not say which norm it is")
    return 2 * _elements(call)


def _each(factor: int, at: int = 0) -> _Formula:
    return lambda call: factor * prod(_sizes(call, at))


def _of_result(factor: int) -> _Formula:
    return lambda call: factor * _result(call)


def _of_lists(factor: int) -> _Formula:
    """Return the formula of an op on all tensors of a list at once."""

    def formula(call: TorchCall) -> float:
        if not call.lists or not call.lists[0]:
            raise UnknownOperands(_NO_SHAPES)
        return factor * sum(map(prod, call.lists[0]))

    return formula


def _named(names: str, formula: _Formula) -> dict[str, _Formula]:
    return {_ATEN + name: formula for name in names.split()}


# Operations for each element of the result.
_ELEMENTWISE: Mapping[int, str] = {
    1: (
        "abs acos add asin atan atan2 bitwise_and bitwise_or bitwise_xor ceil clamp_max clamp_min "
        "cos cosh div eq erf erfc exp expm1 floor floor_divide fmod ge gt le log log10 log1p log2 "
        "logical_and logical_not logical_or lt masked_fill maximum minimum mul ne neg pow "
        "reciprocal relu remainder round sign sin sinh sqrt sub tan tanh threshold "
        "threshold_backward where"
    ),
    2: "clamp hardtanh leaky_relu leaky_relu_backward relu6 rsqrt rsub",
    3: "addcdiv addcmul elu elu_backward lerp sigmoid_backward softplus tanh_backward",
    4: "selu sigmoid",
    5: "gelu mish silu",
    # cdf(x) + x pdf(x); the sigmoid, and its gradient.
    11: "gelu_backward",
    8: "silu_backward",
}
_FOREACH: Mapping[int, str] = {1: "add sub mul div sqrt neg maximum", 3: "addcmul addcdiv lerp"}
FORMULAS: Mapping[str, _Formula] = {
    **{
        _ATEN + name: _of_result(each)
        for each, names in _ELEMENTWISE.items()
        for name in names.split()
    },
    **{
        f"{_ATEN}_foreach_{name}": _of_lists(each)
        for each, names in _FOREACH.items()
        for name in names.split()
    },
    **_named("_fused_adam _fused_adamw", _of_lists(12)),
    **_named("_fused_sgd", _of_lists(4)),
    **_named("mm bmm _scaled_mm _int_mm mv", _product(0, 1)),
    **_named("addmm baddbmm addmv _addmm_activation addbmm", _product(1, 2)),
    **_named("dot vdot", _dot),
    **_named("linear mkldnn_linear _mkl_linear", _linear),
    **_named(
        "_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu "
        "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention",
        _attention(is_backward=False),
    ),
    **_named(
        "_scaled_dot_product_flash_attention_backward "
        "_scaled_dot_product_flash_attention_for_cpu_backward "
        "_scaled_dot_product_efficient_attention_backward "
        "_scaled_dot_product_cudnn_attention_backward",
        _attention(is_backward=True, first=1),
    ),
    **_named(
        "_flash_attention_forward _efficient_attention_forward",
        _attention(is_backward=False, heads_last=True),
    ),
    **_named(
        "_flash_attention_backward _efficient_attention_backward",
        _attention(is_backward=True, first=1, heads_last=True),
    ),
    **_named("convolution _convolution", _any_convolution),
    **_named(
        "mkldnn_convolution miopen_convolution", _convolution(padding=3, stride=4, dilation=5)
    ),
    **_named("cudnn_convolution", _convolution(padding=2, stride=3, dilation=4)),
    **_named(
        "_slow_conv2d_forward thnn_conv2d slow_conv3d_forward",
        _convolution(stride=4, padding=5, dilation=None),
    ),
    **_named(
        "_conv_depthwise2d conv_depthwise3d slow_conv_dilated2d slow_conv_dilated3d",
        _convolution(stride=4, padding=5, dilation=6),
    ),
    **_named("cudnn_convolution_transpose miopen_convolution_transpose", _transposed),
    **_named("convolution_backward", _convolution_backward),
    **_named("max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d", _pool),
    **_named("max_pool2d_with_indices_backward embedding_dense_backward", _each(1)),
    **_named("nll_loss_forward nll_loss2d_forward", _each(2, 1)),
    **_named("nll_loss_backward nll_loss2d_backward", _each(1, 2)),
    **_named("linalg_vector_norm", _norm),
    # One addition for each element.
    **dict.fromkeys(("gloo:all_reduce", "nccl:all_reduce", "gloo:reduce_scatter"), _each(1)),
    **_named("sum", _sum),
    **_named("mean _adaptive_avg_pool2d", _each(1)),
    **_named("_softmax _log_softmax", _each(5)),
    **_named("_softmax_backward_data _log_softmax_backward_data", _each(4)),
    **_named("native_layer_norm", _each(7)),
    **_named("native_layer_norm_backward", _each(9)),
    **_named("native_batch_norm cudnn_batch_norm miopen_batch_norm", _batch_norm),
    **_named("native_batch_norm_backward", _batch_norm_backward),
    **_named("cudnn_batch_norm_backward miopen_batch_norm_backward", _each(9)),
}


def _moves(names: Sequence[str]) -> frozenset[str]:
    plain = frozenset(_ATEN + name for name in names)
    return plain | {f"{name}_" for name in plain}


# Ops without float operations: allocations, views, copies, and what only asks.
MOVEMENT: frozenset[str] = _moves(
    (
        *("_conj", "_has_compatible_shallow_copy_type", "_index_put_impl", "_local_scalar_dense"),
        *("_pin_memory", "_reshape_alias", "_reshape_copy", "_to_copy", "_unsafe_view", "alias"),
        *("arange", "argsort", "as_strided", "broadcast_tensors", "broadcast_to", "cat", "chunk"),
        *("clone", "constant_pad_nd", "contiguous", "copy", "detach", "diagonal", "embedding"),
        *("empty", "empty_like", "empty_strided", "expand", "expand_as", "fill", "flatten"),
        *("flip", "full", "full_like", "gather", "index", "index_put", "index_select"),
        *("is_nonzero", "is_pinned", "item", "lift_fresh", "movedim", "narrow", "new_empty"),
        *("new_empty_strided", "new_full", "new_ones", "new_zeros", "numpy_T", "one_hot", "ones"),
        *("ones_like", "pad", "permute", "pin_memory", "random", "randint", "randperm"),
        *("record_stream", "repeat", "repeat_interleave", "reshape", "resize", "resolve_conj"),
        *("resolve_neg", "result_type", "roll", "scalar_tensor", "scatter", "select"),
        *("select_backward", "set", "slice", "slice_backward", "split", "split_with_sizes"),
        *("squeeze", "stack", "t", "to", "transpose", "tril", "triu", "unbind", "unfold"),
        *("unsafe_split", "unsqueeze", "view", "view_as", "zero", "zeros", "zeros_like"),
    )
) | {"torch::autograd::AccumulateGrad"}
