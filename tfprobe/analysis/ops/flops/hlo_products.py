"""Count products of compiled programs: dots and convolutions, by their dimension numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from tfprobe.analysis.ops.flops.call import UnknownOperands
from tfprobe.profile.hlo import DotDimensions, HloInstruction, HloShape

_NO_FIT = "the shapes of its operands do not fit its result"


def dot(lhs: HloShape, rhs: HloShape, made: HloShape, dimensions: DotDimensions) -> int:
    """Return the float operations of a product of two arrays over some of their dimensions.

    Raises UnknownOperands if the shapes contradict each other.
    """
    summed = _sizes(lhs, dimensions.lhs_contracting)
    batch = _sizes(lhs, dimensions.lhs_batch)
    if summed != _sizes(rhs, dimensions.rhs_contracting):
        raise UnknownOperands(_NO_FIT)
    if batch != _sizes(rhs, dimensions.rhs_batch):
        raise UnknownOperands(_NO_FIT)
    left = _others(lhs, (*dimensions.lhs_batch, *dimensions.lhs_contracting))
    right = _others(rhs, (*dimensions.rhs_batch, *dimensions.rhs_contracting))
    if made.elements != prod(batch) * prod(left) * prod(right):
        raise UnknownOperands(_NO_FIT)
    # An outer product adds nothing up.
    return made.elements * (2 * prod(summed) if summed else 1)


def convolution(
    given: HloShape, kernel: HloShape, made: HloShape, instruction: HloInstruction
) -> int:
    """Return the float operations of a convolution with these input, kernel and output.

    Padding counts as data, holes that dilation leaves do not. So along a dimension, as many
    products are needed as the smaller of outputs and inputs times the window: the gradients of a
    convolution, which are convolutions with dilation or more padding, need as many as itself.

    Raises UnknownOperands if the shapes contradict each other.
    """
    roles = instruction.convolution
    if roles is None:
        raise UnknownOperands("the dimensions that it multiplies are unknown")
    spaces = list(
        zip(roles.input_spatial, roles.kernel_spatial, roles.output_spatial, strict=False)
    )
    counts = {len(spaces), len(roles.input_spatial), len(roles.kernel_spatial)}
    if counts != {len(roles.output_spatial)} or len(instruction.window) != len(spaces):
        raise UnknownOperands("its dimensions contradict each other")
    products = 1
    for (at_input, at_kernel, at_output), window in zip(spaces, instruction.window, strict=True):
        inputs, taps = _size(given, at_input), _size(kernel, at_kernel)
        outputs = _size(made, at_output)
        if taps != window.size:
            raise UnknownOperands(_NO_FIT)
        products *= min(outputs * taps, inputs * taps)
    channels = _size(kernel, roles.kernel_input_feature)
    groups, batches = max(instruction.feature_groups, 1), max(instruction.batch_groups, 1)
    features, images = _size(made, roles.output_feature), _size(made, roles.output_batch)
    if (
        channels * groups != _size(given, roles.input_feature)
        or images * batches != _size(given, roles.input_batch)
        or features != _size(kernel, roles.kernel_output_feature)
    ):
        raise UnknownOperands(_NO_FIT)
    return 2 * products * images * features * channels


def matrix_product(lhs: HloShape, made: HloShape, *, is_transposed: bool) -> int:
    """Return the float operations of a batch of matrix products whose left operand is this.

    Raises UnknownOperands if it is no matrix.
    """
    if len(lhs.sizes) < 2:
        raise UnknownOperands(_NO_FIT)
    return 2 * made.elements * lhs.sizes[-2 if is_transposed else -1]


def _sizes(shape: HloShape, dimensions: Iterable[int]) -> list[int]:
    return [_size(shape, dimension) for dimension in dimensions]


def _size(shape: HloShape, dimension: int) -> int:
    if not 0 <= dimension < len(shape.sizes):
        raise UnknownOperands("it names a dimension that its operand does not have")
    return shape.sizes[dimension]


def _others(shape: HloShape, dimensions: Sequence[int]) -> list[int]:
    """Return the sizes of the other dimensions."""
    if len(set(dimensions)) != len(dimensions):
        raise UnknownOperands("it names a dimension twice")
    return [size for at, size in enumerate(shape.sizes) if at not in dimensions]
