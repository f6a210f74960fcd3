"""Formulas of ops that compute each element by itself.

An operation is an addition, multiplication, division, comparison, root, exponential, logarithm or
other function of the machine's mathematical library: each of them one. Factors are those of the
expression in the comment; where tfprof has a factor of its own (Rsqrt 2, RsqrtGrad 4) it is taken.
"""

from __future__ import annotations

from collections.abc import Mapping

from tfprobe.analysis.ops.flops.call import Call, Formula, UnknownOperands, per_input, per_output

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
# Of the gradient of an activation: with the output, or the input, of the activation.
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
# Of which each output is one of the operands: a choice counts as a comparison does.
CHOICES = ("Select", "SelectV2")
# A random number from random bits: one operation; a normal one by the method of Box and Muller: a
# root, a logarithm and a sine of two such, and three products.
_UNIFORM = ("RandomUniform", "StatelessRandomUniform", "StatelessRandomUniformV2")
_NORMAL = ("RandomStandardNormal", "StatelessRandomNormal", "StatelessRandomNormalV2")


UNARY = (*ACTIVATIONS, *_ONE, "Rsqrt")


def _sum_of_inputs(call: Call) -> float:
    count = call.number("N")
    if count < 1:
        raise UnknownOperands("the number of its inputs is unknown")
    return (count - 1) * call.size_out()


def _composition(call: Call) -> float:
    """Return those of several ops that the optimizer joined."""
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
