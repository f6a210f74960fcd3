"""Find the formula of an op; a step of docs/flops.md for each family."""

from __future__ import annotations

from collections.abc import Mapping

from tfprobe.analysis.ops.flops import formulas, products
from tfprobe.analysis.ops.flops.call import Formula, OpCall, UnknownOperands
from tfprobe.analysis.ops.flops.formulas import NORMALIZATION, OPTIMIZERS, RECURRENT, REDUCTIONS

FORMULAS: Mapping[str, Formula] = {
    **products.CONVOLUTIONS,
    **formulas.ELEMENTWISE,
    **NORMALIZATION,
    **OPTIMIZERS,
    **products.POOLING,
    **products.PRODUCTS,
    **RECURRENT,
    **REDUCTIONS,
}
# Kernels of oneDNN, and ops that only TensorFlow itself makes.
_PREFIXES = ("_MklNative", "_Mkl", "_")


def float_ops(op: str, call: OpCall) -> int:
    """Return the float operations of one run of an op.

    Raises UnknownOperands, with the reason, where there is no formula or a shape is missing.
    """
    name = plain(op)
    if name in MOVEMENT:
        return 0
    if name not in FORMULAS:
        raise UnknownOperands("there is no formula for this op")
    try:
        return int(FORMULAS[name](call))
    except IndexError as exc:
        raise UnknownOperands("its shapes do not fit the op") from exc


def plain(op: str) -> str:
    """Return the op that a kernel of another name computes."""
    for prefix in _PREFIXES:
        if op.startswith(prefix):
            return op.removeprefix(prefix)
    return op


# A number that says how much, where or when is no result of a model, nor are random integers.
MOVEMENT: frozenset[str] = frozenset(
    (
        *("Arg", "DeviceArg", "DeviceRetval", "Retval", "HostCast", "HostRecv", "HostSend"),
        *("ArrayToList", "ListToArray", "ParallelConcatStart", "ParallelConcatUpdate", "Recv"),
        *("Send", "ScopedAllocator", "ScopedAllocatorConcat"),
        *("ScopedAllocatorSplit", "SwitchN", "NcclBroadcastRecv", "NcclBroadcastSend"),
        *("Assert", "Assign", "AssignVariableOp", "BatchToSpace", "BatchToSpaceND", "Bitcast"),
        *("BroadcastArgs", "BroadcastGradientArgs", "BroadcastTo", "Cast"),
        *("Concat", "ConcatOffset", "ConcatV2", "Const", "ControlTrigger"),
        *("Copy", "CopyHost", "DebugIdentity", "DebugIdentityV2"),
        *("DeepCopy", "DepthToSpace", "DestroyResourceOp", "DestroyTemporaryVariable", "Diag"),
        *("DiagPart", "DynamicPartition", "DynamicStitch", "Empty", "EmptyTensorList"),
        *("EnsureShape", "Enter", "Exit", "ExpandDims", "ExtractImagePatches", "Fill", "Gather"),
        *("GatherNd", "GatherV2", "GetSessionHandle", "GetSessionTensor", "GuaranteeConst"),
        *("Identity", "IdentityN", "ImmutableConst", "InvertPermutation", "IsVariableInitialized"),
        *("IteratorGetNext", "IteratorGetNextSync", "IteratorToStringHandle", "IteratorV2"),
        *("LinSpace", "LoopCond", "MatrixBandPart", "MatrixDiag", "MatrixDiagPart"),
        *("MatrixDiagV3", "MatrixSetDiag", "Merge", "MergeV2Checkpoints", "MirrorPad"),
        *("NextIteration", "NoOp", "OneHot", "OnesLike", "OptionalFromValue"),
        *("OptionalGetValue", "OptionalHasValue", "OptionalNone", "Pack", "Pad", "PadV2"),
        *("ParallelConcat", "ParallelDynamicStitch", "Placeholder", "PlaceholderV2"),
        *("PlaceholderWithDefault", "PreventGradient", "Print"),
        *("PrintV2", "QueueDequeueManyV2", "QueueDequeueV2", "QueueEnqueueManyV2"),
        *("QueueEnqueueV2", "QueueSizeV2", "Range", "Rank", "ReadFile", "ReadVariableOp"),
        *("RefEnter", "RefExit", "RefIdentity", "RefMerge", "RefNextIteration", "RefSwitch"),
        *("Reshape", "ResizeNearestNeighbor", "ResourceGather", "ResourceGatherNd", "RestoreV2"),
        *("ResourceScatterUpdate", "ResourceScatterNdUpdate", "Reverse", "ReverseSequence"),
        *("ReverseV2", "Roll", "SaveV2", "ScatterNd", "ScatterNdUpdate", "ScatterUpdate"),
        *("Shape", "ShapeN", "ShardedFilename", "Size", "Slice", "Snapshot", "SpaceToBatch"),
        *("SpaceToBatchND", "SpaceToDepth", "SparseReshape", "SparseToDense", "Split", "SplitV"),
        *("Squeeze", "StackPopV2", "StackPushV2", "StackV2", "StopGradient", "StridedSlice"),
        *("StridedSliceAssign", "StridedSliceGrad", "StringJoin", "Switch", "TemporaryVariable"),
        *("TensorArrayCloseV3", "TensorArrayConcatV3", "TensorArrayGatherV3"),
        *("TensorArrayGradV3", "TensorArrayReadV3", "TensorArrayScatterV3", "TensorArraySizeV3"),
        *("TensorArraySplitV3", "TensorArrayV3", "TensorArrayWriteV3", "TensorListElementShape"),
        *("TensorListFromTensor", "TensorListGetItem", "TensorListLength", "TensorListPopBack"),
        *("TensorListPushBack", "TensorListReserve", "TensorListResize", "TensorListSetItem"),
        *("TensorListStack", "TensorScatterUpdate", "TensorStridedSliceUpdate", "Tile"),
        *("Timestamp", "Transpose", "Unpack", "VarHandleOp", "VarIsInitializedOp", "Variable"),
        *("VariableShape", "VariableV2", "Where", "ZerosLike"),
        *("AnonymousIterator", "AnonymousIteratorV2", "AnonymousIteratorV3", "DeleteIterator"),
        *("MakeIterator", "Stage", "Unstage", "ConjugateTranspose", "DataFormatDimMap"),
        *("DataFormatVecPermute", "Real", "RandomShuffle", "RandomUniformInt", "RngReadAndSkip"),
        *("RngSkip", "StatelessRandomGetAlg", "StatelessRandomGetKeyCounter"),
        *("StatelessRandomGetKeyCounterAlg", "StatelessRandomUniformInt"),
        *("StatelessRandomUniformIntV2",),
    )
)
# They run a function, whose ops count by themselves.
CALLS: frozenset[str] = frozenset(
    (
        *("Case", "For", "If", "PartitionedCall", "RemoteCall", "StatefulPartitionedCall"),
        *("StatelessCase", "StatelessIf", "StatelessWhile", "SymbolicGradient", "While"),
    )
)
# The nodes for which a recording's copies between host and device count.
COPIES: frozenset[str] = frozenset(("CopyDeviceToDevice", "CopyDeviceToHost", "CopyHostToDevice"))
