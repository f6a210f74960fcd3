"""Tell which output of an op a name means: inside a function inputs name outputs by argument."""

from __future__ import annotations

from collections.abc import Mapping

_NORM = ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2")
_NORM_GRADIENT = ("x_backprop", "scale_backprop", "offset_backprop", "reserve_space_3")
_LSTM = ("i", "cs", "f", "o", "ci", "co", "h")
_RNN = ("output", "output_h", "output_c", "reserve_space", "host_reserved")
_RNN_GRADIENT = ("input_backprop", "input_h_backprop", "input_c_backprop", "params_backprop")
# The outputs of ops that have several, each of them one tensor; from TensorFlow's op definitions.
_OUTPUTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2"), _NORM),
    **dict.fromkeys(("FusedBatchNormGrad", "FusedBatchNormGradV2"), _NORM_GRADIENT),
    **dict.fromkeys(("BlockLSTM", "BlockLSTMV2", "LSTMBlockCell"), _LSTM),
    **dict.fromkeys(("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"), _RNN),
    **dict.fromkeys(
        ("CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3"), _RNN_GRADIENT
    ),
    "BroadcastGradientArgs": ("r0", "r1"),
    "FusedBatchNormGradV3": _NORM_GRADIENT,
    "FusedBatchNormV3": (*_NORM, "reserve_space_3"),
    "GRUBlockCell": ("r", "u", "c", "h"),
    "MaxPoolWithArgmax": ("output", "argmax"),
    "Merge": ("output", "value_index"),
    "SoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    "SparseSoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    **dict.fromkeys(("TensorListPopBack", "TensorListPopBackBatch"), ("output_handle", "tensor")),
    "Switch": ("output_false", "output_true"),
    "TopKV2": ("values", "indices"),
    "TensorListConcat": ("tensor", "lengths"),
    "TensorListConcatV2": ("tensor", "lengths"),
    "Unique": ("y", "idx"),
}


def output_number(op: str, argument: str, number: int) -> int:
    """Return which output `argument:number` of an op is.

    Ops that are not known here have one argument, which may be a list: its numbers are the outputs.
    """
    arguments = _OUTPUTS.get(op, ())
    return arguments.index(argument) if argument in arguments else number
