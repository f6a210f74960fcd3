"""Read what a backend of XLA notes about an instruction: custom calls of libraries, and loops."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfprobe.analysis.ops.flops.call import UnknownOperands
from tfprobe.analysis.ops.flops.formulas import ACTIVATIONS
from tfprobe.analysis.ops.flops.hlo_products import convolution, dot, matrix_product
from tfprobe.profile.hlo import DotDimensions, HloInstruction, HloShape

# Of no loop: a number of this many digits is damage.
_MOST_TRIPS = 2**40


def trip_count(instruction: HloInstruction) -> int | None:
    """Return how often a loop runs, None if the compiler did not find out."""
    known = _config(instruction).get("known_trip_count")
    trips = _integer(known.get("n")) if isinstance(known, dict) else None
    return trips if trips is not None and 0 <= trips <= _MOST_TRIPS else None


def custom_call(instruction: HloInstruction, operands: Sequence[HloShape], made: HloShape) -> float:
    """Return the float operations of a function of a library. Raises UnknownOperands."""
    target = instruction.target
    if target in MARKS:
        return 0
    formula = _FORMULAS.get(target)
    if formula is None:
        return _estimate(instruction)
    arrays = made.arrays()
    if len(operands) < 2 or not arrays:
        raise UnknownOperands(f"the shapes of {target} are unknown")
    # Behind the result, there may be its work space.
    return formula(instruction, operands, arrays[0])


def estimated_bytes(instruction: HloInstruction) -> int | None:
    """Return the bytes that a kernel accesses by its author's word, None if there is none."""
    return _estimated(instruction, "bytes_accessed")


def _estimated(instruction: HloInstruction, name: str) -> int | None:
    """Return what the author of a kernel said that it costs (`pl.CostEstimate`)."""
    config = _config(instruction)
    for part in (config, config.get("custom_call_config")):
        estimate = part.get("cost_estimate") if isinstance(part, dict) else None
        amount = _integer(estimate.get(name)) if isinstance(estimate, dict) else None
        if amount is not None and amount > 0:
            return amount
    return None


def _estimate(instruction: HloInstruction) -> float:
    flops = _estimated(instruction, "flops")
    if flops is not None:
        return flops
    name = instruction.target or "this function"
    raise UnknownOperands(f"there is no formula for {name}, which is not part of XLA")


def _cublas(instruction: HloInstruction, operands: Sequence[HloShape], made: HloShape) -> float:
    config = _config(instruction)
    gemm = config.get("gemm_backend_config", config)
    numbers = gemm.get("dot_dimension_numbers") if isinstance(gemm, dict) else None
    if not isinstance(numbers, dict):
        raise UnknownOperands("the dimensions that it multiplies are unknown")
    dimensions = DotDimensions(
        *(
            _integers(numbers.get(f"{side}_{kind}_dimensions", []))
            for kind in ("contracting", "batch")
            for side in ("lhs", "rhs")
        )
    )
    product = dot(operands[0], operands[1], made, dimensions)
    return product + _epilogue(gemm) * made.elements


def _epilogue(gemm: Mapping[str, Any]) -> int:
    """Return the operations for each element of the result that follow the product."""
    count = 1 if _number(gemm.get("beta")) else 0
    for word in str(gemm.get("epilogue", "DEFAULT")).split("_"):
        if word not in _EPILOGUES:
            raise UnknownOperands(f"there is no formula for {word}, which follows its product")
        count += _EPILOGUES[word]
    return count


def _onednn_product(
    instruction: HloInstruction, operands: Sequence[HloShape], made: HloShape
) -> float:
    config = _config(instruction).get("onednn_matmul_config")
    if not isinstance(config, dict):
        raise UnknownOperands("the dimensions that it multiplies are unknown")
    product = matrix_product(operands[0], made, is_transposed=config.get("transpose_a") is True)
    fusions = config.get("fusions")
    fused = fusions.get("ops", []) if isinstance(fusions, dict) else config.get("fused_ops", [])
    each = 0
    for name in fused if isinstance(fused, list) else [fused]:
        if name not in _ONEDNN:
            raise UnknownOperands(f"there is no formula for {name}, which follows its product")
        each += _ONEDNN[name]
    return product + each * made.elements


def _cudnn(instruction: HloInstruction, operands: Sequence[HloShape], made: HloShape) -> float:
    """The forward convolution; its dimension numbers stand in those of its gradients, too."""
    target = instruction.target
    if target == "__cudnn$convBackwardInput":
        return convolution(made, operands[1], operands[0], instruction)
    if target == "__cudnn$convBackwardFilter":
        return convolution(operands[0], made, operands[1], instruction)
    product = convolution(operands[0], operands[1], made, instruction)
    if target == "__cudnn$convForward":
        return product
    config = _config(instruction).get("cudnn_conv_backend_config", {})
    mode = str(config.get("activation_mode", "")) if isinstance(config, dict) else ""
    each = {"kNone": 0, "kRelu": 1, "kRelu6": 2, "kElu": 3, "kLeakyRelu": 2}.get(mode.strip())
    if each is None:
        raise UnknownOperands("the activation that follows its product is unknown")
    side = 1 if isinstance(config, dict) and _number(config.get("side_input_scale")) else 0
    return product + (1 + side + each) * made.elements


def _config(instruction: HloInstruction) -> dict[str, Any]:
    """Return what the backend noted, {} if it is not JSON. Any: values of JSON."""
    try:
        found = json.loads(instruction.config) if instruction.config else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _integer(value: object) -> int | None:
    """Return a whole number, which protobuf writes as text into JSON."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        return int(value)
    except ValueError:
        return None


def _integers(values: object) -> tuple[int, ...]:
    found = [_integer(value) for value in values] if isinstance(values, list) else [None]
    known = tuple(value for value in found if value is not None)
    if len(known) != len(found):
        raise UnknownOperands("the dimensions that it multiplies are unknown")
    return known


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


# Operations for each element, by the words in the name of an epilogue of cuBLAS.
_EPILOGUES: Mapping[str, int] = {
    "AUX": 0,
    "BIAS": 1,
    "DEFAULT": 0,
    "GELU": ACTIVATIONS["GeluApproximate"],
    "RELU": ACTIVATIONS["Relu"],
    "SILU": ACTIVATIONS["Swish"],
}
# What oneDNN appends to a product.
_ONEDNN: Mapping[str, int] = {
    "BIAS": 1,
    "BINARY_ADD": 1,
    "ELU": ACTIVATIONS["Elu"],
    "GELU_ERF": ACTIVATIONS["GeluExact"],
    "GELU_TANH": ACTIVATIONS["GeluApproximate"],
    "LINEAR": 1,
    "RELU": ACTIVATIONS["Relu"],
    "RELU6": ACTIVATIONS["Relu6"],
    "SIGMOID": ACTIVATIONS["Sigmoid"],
    "SUM": 1,
    "SWISH": ACTIVATIONS["Swish"],
    "TANH": ACTIVATIONS["Tanh"],
    "UNDEFINED": 0,
}
_Formula = Callable[[HloInstruction, Sequence[HloShape], HloShape], float]
_FORMULAS: Mapping[str, _Formula] = {
    "__cublas$gemm": _cublas,
    "__cublas$lt$matmul": _cublas,
    "__cublas$lt$matmul$f8": _cublas,
    "__cudnn$convBackwardFilter": _cudnn,
    "__cudnn$convBackwardInput": _cudnn,
    "__cudnn$convBiasActivationForward": _cudnn,
    "__cudnn$convForward": _cudnn,
    "__onednn$matmul": _onednn_product,
}
# How the names of functions begin that read their operands once and write their result.
LIBRARIES = ("__cublas$", "__cudnn$conv", "__onednn$", "blas_", "cusolver_", "lapack_")
# Marks of the compiler, and copies.
MARKS = frozenset(
    (
        *("AllocateBuffer", "MoveToDevice", "MoveToHost", "SPMDFullToShardShape"),
        *(
            "SPMDShardToFullShape",
            "Sharding",
            "annotate_device_placement",
            "xla.sdy.FuncResultSharding",
        ),
    )
)
