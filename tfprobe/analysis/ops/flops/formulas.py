"""Formulas of element-wise ops, normalizations and losses."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from tfprobe.analysis.ops.flops.call import Formula, OpCall, UnknownOperands, per_input, per_output

# Operations for each element, by op. Activations also stand in the names of fused ops.
ACTIVATIONS: Mapping[str, int] = {
    "Elu": 3,  # x > 0, exp, - 1
    "GeluApproximate": 9,  # x/2 (1 + tanh(a (x + b x^3)))
    "GeluExact": 5,  # x/2 (1 + erf(x/sqrt 2))
    "LeakyRelu": 2,
    "Mish": 5,  # x tanh(log(1 + exp x))
    "Relu": 1,
    "Relu6": 2,
    "Selu": 4,
    "Sigmoid": 4,  # 1 / (1 + exp -x)
    "Softplus": 3,
    "Softsign": 3,
    "Swish": 5,  # x sigmoid(x)
    "Tanh": 1,
}
# Gradients of activations, with the output or the input of the activation.
GRADIENTS: Mapping[str, int] = {
    "EluGrad": 3,
    "InvGrad": 3,  # -dy y y
    "LeakyReluGrad": 2,
    "ReciprocalGrad": 3,
    "Relu6Grad": 3,
    "ReluGrad": 1,
    "RsqrtGrad": 4,
    "SeluGrad": 3,
    "SigmoidGrad": 3,  # dy y (1 - y)
    "SoftplusGrad": 4,
    "SoftsignGrad": 4,
    "SqrtGrad": 2,
    "TanhGrad": 3,
}
_ONE = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BesselI0e", "BesselI1e", "Ceil"),
    *(
        "CheckNumerics",
        "CheckNumericsV2",
        "ComplexAbs",
        "Cos",
        "Cosh",
        "Digamma",
        "Erf",
        "Erfc",
        "Erfinv",
        "Exp",
        "Expm1",
        "Floor",
    ),
    *("Imag", "Inv", "Invert", "IsFinite", "IsInf", "IsNan", "Lgamma", "Log", "Log1p"),
    *("LogicalNot", "Ndtri", "Neg", "Reciprocal", "Rint", "Round", "Sign", "Sin", "Sinh"),
    *("Sqrt", "Square", "Tan"),
)
BINARY = (
    "SquaredDifference",
    *("Add", "AddV2", "ApproximateEqual", "Atan2", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
    *("Complex", "Div", "DivNoNan", "Equal", "FloorDiv", "FloorMod", "Greater", "GreaterEqual"),
    *("LeftShift", "Less", "LessEqual", "LogicalAnd", "LogicalOr", "Maximum", "Minimum", "Mod"),
    *("Mul", "MulNoNan", "NextAfter", "NotEqual", "Polygamma", "Pow", "RealDiv", "RightShift"),
    *("Sub", "TruncateDiv", "TruncateMod", "Xdivy", "Xlog1py", "Xlogy"),
)
# Each output is one of the operands: a choice counts like a comparison.
CHOICES = ("Select", "SelectV2")
# A random number from random bits is one operation; a normal one by the Box-Muller method is a
# root, a logarithm and a sine of two such numbers, and three products.
_UNIFORM = ("RandomUniform", "StatelessRandomUniform", "StatelessRandomUniformV2")
_NORMAL = ("RandomStandardNormal", "StatelessRandomNormal", "StatelessRandomNormalV2")


UNARY = (*ACTIVATIONS, *_ONE, "Rsqrt")


def _sum_of_inputs(call: OpCall) -> float:
    count = call.number("N")
    if count < 1:
        raise UnknownOperands("the number of its inputs is unknown")
    return (count - 1) * call.size_out()


def _composition(call: OpCall) -> float:
    """Sum over the ops that the optimizer joined."""
    names = [name for name in call.text("op_names").split(",") if name]
    unknown = [name for name in names if name not in UNARY]
    if unknown or not names:
        raise UnknownOperands("which ops are joined in it is unknown")
    return sum(_each(name) for name in names) * call.size_out()


def _each(op: str) -> int:
    return 2 if op == "Rsqrt" else ACTIVATIONS.get(op, 1)


ELEMENTWISE: Mapping[str, Formula] = {
    **{op: per_output(each) for op, each in {**ACTIVATIONS, **GRADIENTS}.items()},
    **dict.fromkeys(_ONE, per_output()),
    **dict.fromkeys((*BINARY, *CHOICES), per_output()),
    **dict.fromkeys(_UNIFORM, per_output()),
    **dict.fromkeys(_NORMAL, per_output(8)),
    "AccumulateNV2": _sum_of_inputs,
    "AddN": _sum_of_inputs,
    "UnaryOpsComposition": _composition,
    "BiasAdd": per_output(),
    "BiasAddV1": per_output(),
    "ClipByValue": per_output(2),
    "L2Loss": lambda call: 3 * call.size_in() - 1,
    "Rsqrt": per_output(2),
    "SquaredDifference": per_output(2),
    "AssignAdd": per_input(index=1),
    "AssignSub": per_input(index=1),
}


# Mean 1, variance 3; (x - mean) factor + offset 3.
_BATCH_NORM_TRAINING, _BATCH_NORM = 7, 3
# Sum of dy 1, normalised x 2, sum of its product with dy 2; dx 4, or 1 where mean and variance
# are constants.
_BATCH_NORM_GRADIENT_TRAINING, _BATCH_NORM_GRADIENT = 9, 6
# Maximum, difference, exponential, sum, quotient: as tfprof.
_SOFTMAX = 5


def _batch_norm(call: OpCall) -> float:
    trains = call.attributes.get("is_training", True)
    return (_BATCH_NORM_TRAINING if trains else _BATCH_NORM) * call.size_in()


def _batch_norm_with_activation(call: OpCall) -> float:
    """Add the fused activation, a Relu."""
    return _batch_norm(call) + call.size_in()


def _batch_norm_gradient(call: OpCall) -> float:
    trains = call.attributes.get("is_training", True)
    each = _BATCH_NORM_GRADIENT_TRAINING if trains else _BATCH_NORM_GRADIENT
    return each * call.size_in()


def _batch_norm_gradient_with_activation(call: OpCall) -> float:
    return _batch_norm_gradient(call) + call.size_in()


def _sparse_cross_entropy(call: OpCall) -> float:
    """A softmax; per row, the loss takes 2 and the gradient of the label 1."""
    return _SOFTMAX * call.size_in() + 3 * prod(call.input(0)[:-1])


def _local_response(call: OpCall) -> float:
    """Square, sum over the window, x alpha + bias, power, product."""
    return (2 * call.number("depth_radius", 5) + 1 + 5) * call.size_in()


_BATCH_NORMS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
_BATCH_NORM_GRADIENTS = ("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
NORMALIZATION: Mapping[str, Formula] = {
    **dict.fromkeys(_BATCH_NORMS, _batch_norm),
    **dict.fromkeys(_BATCH_NORM_GRADIENTS, _batch_norm_gradient),
    "FusedBatchNormEx": _batch_norm_with_activation,
    "FusedBatchNormGradEx": _batch_norm_gradient_with_activation,
    "LRN": _local_response,
    "LogSoftmax": per_input(_SOFTMAX),
    "Softmax": per_input(_SOFTMAX),
    # A softmax; label x (log of sum - logit), summed: 3; probability - label: 1.
    "SoftmaxCrossEntropyWithLogits": per_input(_SOFTMAX + 4),
    "SparseSoftmaxCrossEntropyWithLogits": _sparse_cross_entropy,
}


def _fold(call: OpCall) -> float:
    return call.size_in() - call.size_out()


def _mean(call: OpCall) -> float:
    """The sum, and one division per result."""
    return call.size_in()


def _sparse_segments(call: OpCall) -> float:
    """The sum of the rows that the second input selects."""
    return call.size_in(1) * prod(call.input(0)[1:])


def _sparse_segment_means(call: OpCall) -> float:
    return _sparse_segments(call) + call.size_out()


_FOLDS = ("All", "Any", "ArgMax", "ArgMin", "BiasAddGrad", "Max", "Min", "Prod", "Sum")
_SCANS = ("Cumprod", "Cumsum")
_SEGMENTS = (
    *("SegmentMax", "SegmentMaxV2", "SegmentMin", "SegmentMinV2", "SegmentProd", "SegmentProdV2"),
    *("SegmentSum", "SegmentSumV2", "UnsortedSegmentMax", "UnsortedSegmentMin"),
    *("UnsortedSegmentProd", "UnsortedSegmentSum"),
)
_SCATTERS = (
    *("ResourceScatterAdd", "ResourceScatterDiv", "ResourceScatterMax", "ResourceScatterMin"),
    *("ResourceScatterMul", "ResourceScatterNdAdd", "ResourceScatterNdSub", "ResourceScatterSub"),
    *("ScatterAdd", "ScatterDiv", "ScatterMax", "ScatterMin", "ScatterMul", "ScatterNdAdd"),
    *("ScatterNdSub", "ScatterSub", "TensorScatterAdd", "TensorScatterMax", "TensorScatterMin"),
    *("TensorScatterSub",),
)
REDUCTIONS: Mapping[str, Formula] = {
    **dict.fromkeys(_FOLDS, _fold),
    **dict.fromkeys(_SCANS, per_input()),
    **dict.fromkeys(_SEGMENTS, per_input()),
    # Inputs: what is updated, where, and by what.
    **dict.fromkeys(_SCATTERS, per_input(index=2)),
    **dict.fromkeys(("SparseSegmentSum", "SparseSegmentSumWithNumSegments"), _sparse_segments),
    **dict.fromkeys(("SparseSegmentMean", "SparseSegmentSqrtN"), _sparse_segment_means),
    "EuclideanNorm": per_input(2),
    "InTopK": per_input(),
    "InTopKV2": per_input(),
    "Mean": _mean,
    "SegmentMean": lambda call: call.size_in() + call.size_out(),
}


# For each element of the state: biases 5 (forget bias too), three sigmoids 12, two tanh 2, state 3,
# output 1.
_LSTM, _LSTM_PEEPHOLE = 23, 6
# Gradients of the output gate 4, the state 5, three gates 12, the state before 1.
_LSTM_GRADIENT = 22
# Biases 3, two sigmoids 8, tanh 1, r h 1, u h + (1 - u) c 4.
_GRU = 17
# Gradients of candidate 5, update gate 5, reset gate 4, states 4.
_GRU_GRADIENT = 18
_GATES = {"lstm": 4, "gru": 3, "rnn_relu": 1, "rnn_tanh": 1}


def _lstm_cell(call: OpCall) -> float:
    """Inputs: x, cs_prev, h_prev, w, ..."""
    return _lstm(call, rows=call.input(0)[0], weights=3)


def _lstm_sequence(call: OpCall) -> float:
    """Inputs: seq_len_max, x, cs_prev, h_prev, w, ..."""
    return _lstm(call, rows=prod(call.input(1)[:2]), weights=4)


def _lstm(call: OpCall, *, rows: int, weights: int) -> float:
    width = call.input(weights)[1] // 4
    each = _LSTM + (_LSTM_PEEPHOLE if call.flag("use_peephole") else 0)
    return 2 * rows * call.size_in(weights) + each * rows * width


def _lstm_cell_gradient(call: OpCall) -> float:
    """The gates only: their products are ops of their own."""
    return _LSTM_GRADIENT * call.input(0)[0] * (call.input(3)[1] // 4)


def _lstm_sequence_gradient(call: OpCall) -> float:
    """The products for the input and the weights, the gates and the biases."""
    rows, weights = prod(call.input(1)[:2]), call.input(4)
    return 4 * rows * prod(weights) + (_LSTM_GRADIENT + 4) * rows * (weights[1] // 4)


def _gru_cell(call: OpCall) -> float:
    """Inputs: x, h_prev, w_ru, w_c, b_ru, b_c."""
    return _gru(call, _GRU)


def _gru_cell_gradient(call: OpCall) -> float:
    """The product for the input, and the gates."""
    return _gru(call, _GRU_GRADIENT)


def _gru(call: OpCall, each: int) -> float:
    rows, width = call.input(0)[0], call.input(3)[1]
    return 2 * rows * (call.size_in(2) + call.size_in(3)) + each * rows * width


def _cudnn(call: OpCall) -> float:
    """The products. Inputs: input (with its width last), input_h, input_c, params."""
    gates = _GATES.get(call.text("rnn_mode", "lstm"))
    if gates is None or call.number("num_proj"):
        raise UnknownOperands("no formula for this kind of recurrent layer")
    directions = 2 if call.text("direction", "unidirectional") == "bidirectional" else 1
    first, state = call.input(0), call.input(1)
    layers, width = state[0] // directions, state[-1]
    inputs = first[-1] + (layers - 1) * directions * width
    weights = directions * gates * width * (inputs + layers * width)
    return 2 * prod(first[:-1]) * weights


def _cudnn_gradient(call: OpCall) -> float:
    """The products for the inputs and the weights."""
    return 2 * _cudnn(call)


RECURRENT: Mapping[str, Formula] = {
    **dict.fromkeys(("BlockLSTM", "BlockLSTMV2"), _lstm_sequence),
    **dict.fromkeys(("BlockLSTMGrad", "BlockLSTMGradV2"), _lstm_sequence_gradient),
    **dict.fromkeys(("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"), _cudnn),
    **dict.fromkeys(
        ("CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3"), _cudnn_gradient
    ),
    "GRUBlockCell": _gru_cell,
    "GRUBlockCellGrad": _gru_cell_gradient,
    "LSTMBlockCell": _lstm_cell,
    "LSTMBlockCellGrad": _lstm_cell_gradient,
}


class _Update(NamedTuple):
    """The input that is the gradient, operations per element of it, and more with Nesterov."""

    gradient: int
    each: int
    nesterov: int = 0


_UPDATES: Mapping[str, _Update] = {
    # accum rho + g^2 (1 - rho): 4, twice; the update 6; var 2.
    "Adadelta": _Update(6, 16),
    # g^2 2; lr g / sqrt(accum) 3; var 1.
    "Adagrad": _Update(3, 6),
    "AdagradV2": _Update(4, 7),
    # m 3, max(beta v, |g|) 3, lr m / (v + epsilon) and var 4.
    "AdaMax": _Update(8, 10),
    # m 3, v 4, lr m / (sqrt(v) + epsilon) and var 5.
    "Adam": _Update(9, 12, nesterov=3),
    # mean square 4, mean 3, momentum 8, var 1.
    "CenteredRMSProp": _Update(8, 16),
    # accum 2, linear 7, var 8.
    "Ftrl": _Update(3, 17),
    "GradientDescent": _Update(2, 2),
    # accum momentum - lr g 3, var 1.
    "KerasMomentum": _Update(3, 4, nesterov=2),
    # accum momentum + g 2, var 2.
    "Momentum": _Update(3, 4, nesterov=3),
    # mean square 4, momentum 6, var 1.
    "RMSProp": _Update(7, 11),
}
# Sparse updates, with the gradient as the same input.
_SPARSE = ("Adadelta", "Adagrad", "AdagradV2", "CenteredRMSProp", "Ftrl", "KerasMomentum")
_SPARSE_TOO = (*_SPARSE, "Momentum", "RMSProp")


def _formula(update: _Update) -> Formula:
    def formula(call: OpCall) -> float:
        each = update.each + (update.nesterov if call.flag("use_nesterov") else 0)
        return each * call.size_in(update.gradient)

    return formula


OPTIMIZERS: Mapping[str, Formula] = {
    **{f"ResourceApply{name}": _formula(update) for name, update in _UPDATES.items()},
    **{f"Apply{name}": _formula(update) for name, update in _UPDATES.items()},
    **{f"ResourceSparseApply{name}": _formula(_UPDATES[name]) for name in _SPARSE_TOO},
    **{f"SparseApply{name}": _formula(_UPDATES[name]) for name in _SPARSE_TOO},
    "AssignAddVariableOp": per_input(index=1),
    "AssignSubVariableOp": per_input(index=1),
}
