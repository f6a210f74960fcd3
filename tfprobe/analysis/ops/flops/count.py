"""Count the float operations of what ran, with the reasons where they are unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.core.names import scopes_around
from tfprobe.analysis.ops.accessed_bytes import ProgramBytes
from tfprobe.analysis.ops.flops import formulas, products
from tfprobe.analysis.ops.flops.call import Formula, OpCall, UnknownOperands
from tfprobe.analysis.ops.flops.formulas import NORMALIZATION, OPTIMIZERS, RECURRENT, REDUCTIONS
from tfprobe.analysis.ops.flops.hlo import ProgramFlops
from tfprobe.analysis.ops.flops.solve import inputs_of, shapes_of
from tfprobe.analysis.ops.flops.torch_ops import torch_flops
from tfprobe.analysis.ops.op_stats import sums
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.graph import Graph, Node, Output, Shape, TracedLoop
from tfprobe.profile.tables import Flags, Int64s

# Thousands of larger numbers could not be added up in 64 bits.
_MOST = 2**50


@dataclass(frozen=True, slots=True)
class FloatOps:
    """Float operations of traced steps.

    `of_rows` are those of each row of the executions, 0 for rows that do not count: kernels of a
    node that also has rows on the host. `unknown` has, for each node that ran and whose float
    operations are unknown, the op that ran and the reason. `accessed_of_rows` are the bytes that
    each row read and wrote, known of the nodes in `accessing`, instructions of compiled programs.
    """

    of_rows: Int64s
    unknown: Mapping[int, tuple[str, str]]
    accessed_of_rows: Int64s
    accessing: frozenset[int] = frozenset()


def count(traced: TracedLoop) -> FloatOps:
    """Return the float operations of each row, from the op log, or from formulas and shapes."""
    rows = traced.executions
    nodes = [_defined(node, traced.optimized) for node in traced.graph.nodes]
    shapes = shapes_of(replace(traced, graph=Graph(tuple(nodes))))
    scopes = _scopes(traced)
    instructions = _of_instructions(traced)
    counted = counted_rows(traced)
    of_rows = np.zeros(len(rows), dtype=np.int64)
    unknown: dict[int, tuple[str, str]] = {}
    width = len(rows.strings.values) or 1
    pairs = traced.node.astype(np.int64) * width + rows.op_type
    found, places = np.unique(pairs[counted], return_inverse=True)
    of_pairs = np.zeros(len(found), dtype=np.int64)
    for at, pair in enumerate(found.tolist()):
        number, op = pair // width, rows.strings[pair % width]
        of_run = instructions.get(nodes[number].name)
        if of_run is None:
            of_run = _of_run(traced, nodes[number], op, shapes, scopes)
        if isinstance(of_run, Missing):
            unknown.setdefault(number, (op, of_run.reason))
        else:
            of_pairs[at] = of_run
    of_rows[counted] = of_pairs[places.reshape(-1)]
    if unknown:
        of_rows[np.isin(traced.node, list(unknown))] = 0
    accessed = _accessed_by_node(traced)
    accessed_of_rows = np.where(counted, accessed[traced.node], 0)
    return FloatOps(of_rows, unknown, np.maximum(accessed_of_rows, 0), _known(accessed))


def accessed_ratio(traced: TracedLoop, float_ops: FloatOps, step: int) -> float:
    """Return the share of the ops run (0..1) that have known bytes read and written."""
    captures = [capture.index for capture in traced.captures if step in (_AVERAGE, capture.step)]
    ran = traced.node[np.isin(traced.executions.capture, captures) & counted_rows(traced)]
    return _ratio(float(np.isin(ran, list(float_ops.accessing)).sum()), float(len(ran)))


_UNKNOWN = -1


def _accessed_by_node(traced: TracedLoop) -> Int64s:
    """Return the bytes that one run of each node accesses, -1 if unknown."""
    found: dict[str, int | Missing] = {}
    for program in traced.programs:
        accessed = ProgramBytes(program.module)
        for name, instruction in program.names.items():
            of_run = accessed.of(instruction)
            if found.setdefault(name, of_run) != of_run:
                found[name] = _SEVERAL
    amounts = (found.get(node.name, _SEVERAL) for node in traced.graph.nodes)
    return np.array(
        [_UNKNOWN if isinstance(amount, Missing) else amount for amount in amounts],
        dtype=np.int64,
    )


def _known(amounts: Int64s) -> frozenset[int]:
    return frozenset(np.flatnonzero(amounts != _UNKNOWN).tolist())


def _of_instructions(traced: TracedLoop) -> dict[str, int | Missing]:
    """Return the float operations of the instructions of XLA's programs, by the names of nodes."""
    found: dict[str, int | Missing] = {}
    for program in traced.programs:
        flops = ProgramFlops(program.module)
        for name, instruction in program.names.items():
            of_run = flops.of(instruction)
            if found.setdefault(name, of_run) != of_run:
                found[name] = _SEVERAL
    return found


_SEVERAL = Missing("several programs have an instruction of this name")


def _defined(node: Node, optimized: Mapping[tuple[str, str], Node]) -> Node:
    """Return the optimized definition of a node that has none in the graph."""
    if node.inputs or node.output_shapes:
        return node
    return optimized.get((node.name, node.op), node)


def counted_rows(traced: TracedLoop) -> Flags:
    """Return which rows are executions of a node: those on the host, or if none, its kernels."""
    on_host = traced.executions.place == Place.HOST
    launched = np.zeros(len(traced.graph.nodes), dtype=np.bool_)
    launched[traced.node[on_host]] = True
    counted: Flags = on_host | ~launched[traced.node]
    return counted


def _scopes(traced: TracedLoop) -> set[str]:
    """Return the scopes in which something ran, and the nodes whose functions ran."""
    rows = traced.executions
    scopes: set[str] = set()
    for position in np.unique(rows.name).tolist():
        scopes.update(scopes_around(rows.strings[position]))
    ran = {traced.graph.nodes[at].name for at in np.unique(traced.node).tolist()}
    scopes.update(name for name, inside in traced.insides.items() if inside & ran)
    return scopes


def _of_run(
    traced: TracedLoop, node: Node, op: str, shapes: Mapping[Output, Shape], scopes: set[str]
) -> int | Missing:
    if node.float_ops:
        return node.float_ops
    if node.call is not None:
        return torch_flops(op, node.call)
    if plain(op) in CALLS:
        if node.name in scopes:
            return 0
        return Missing("it runs a function whose ops were not recorded")
    if node.op in COPIES:
        return 0  # its rows are those of the driver
    if node.name in traced.shared_names and plain(op) not in MOVEMENT:
        return Missing("several functions have a node of this name")
    definition: Node | None = node
    if plain(op).removesuffix("WithBias") != plain(node.op):
        definition = traced.optimized.get((node.name, op))
    if definition is None:
        return Missing("the graph optimizer made it, and the optimized graph does not contain it")
    try:
        found = float_ops(op, _call(definition, node, shapes))
    except UnknownOperands as exc:
        return Missing(str(exc))
    return found if 0 <= found <= _MOST else Missing("its shapes are those of no machine")


def _call(definition: Node, node: Node, shapes: Mapping[Output, Shape]) -> OpCall:
    outputs = max((*node.output_shapes, *definition.output_shapes), default=0) + 1
    return OpCall(
        tuple(shapes.get(output, ()) if output else () for output in inputs_of(definition)),
        tuple(shapes.get((node.name, number), ()) for number in range(outputs)),
        definition.attributes,
    )


Floats = npt.NDArray[np.float64]

_AVERAGE = -1


@dataclass(frozen=True, slots=True)
class UnknownOp:
    """An op with unknown float operations, the reason, and its share of the time (0..1)."""

    op: str
    reason: str
    time_ratio: float


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much is known, each 0..1: of the FLOPs, of the executed ops, and of the time of ops.

    The unknown FLOPs are estimated: as many as known ops of the same type compute in the same time,
    or if there are none, known ops of all types that compute. `unknown` are the ops with unknown
    FLOPs, those with most time first.
    """

    float_ops_ratio: float
    ops_ratio: float
    time_ratio: float
    unknown: tuple[UnknownOp, ...]


def coverage(traced: TracedLoop, float_ops: FloatOps, step: int) -> Coverage:
    """Return the coverage of a traced step; for -1, of all together."""
    rows = traced.executions
    captures = [capture.index for capture in traced.captures if step in (_AVERAGE, capture.step)]
    in_step = np.isin(rows.capture, captures)
    count = len(traced.graph.nodes)
    runs = np.bincount(traced.node[in_step & counted_rows(traced)], minlength=count)
    by_node = sums(rows, np.where(in_step, traced.node, count), count)
    times_ns = by_node.time_ns.astype(np.float64)
    nodes = [at for at in float_ops.unknown if runs[at]]
    whole_ns = float(times_ns.sum())
    by_op: dict[tuple[str, str], float] = {}
    for at in nodes:
        which = float_ops.unknown[at]
        by_op[which] = by_op.get(which, 0.0) + float(times_ns[at])
    unknown = [
        UnknownOp(op, reason, _ratio(time_ns, whole_ns)) for (op, reason), time_ns in by_op.items()
    ]
    unknown.sort(key=lambda op: (-op.time_ratio, op.op, op.reason))
    known = np.zeros(count)
    np.add.at(known, traced.node[in_step], float_ops.of_rows[in_step].astype(np.float64))
    lacking = _estimated(traced, known, times_ns, {at: float_ops.unknown[at][0] for at in nodes})
    return Coverage(
        float_ops_ratio=1 - _ratio(lacking, lacking + float(known.sum())),
        ops_ratio=1 - _ratio(float(runs[nodes].sum()), float(runs.sum())),
        time_ratio=1 - _ratio(sum(by_op.values()), whole_ns),
        unknown=tuple(unknown),
    )


def _estimated(
    traced: TracedLoop, known: Floats, times_ns: Floats, unknown: Mapping[int, str]
) -> float:
    """Estimate the FLOPs of the nodes with unknown ones by their time.

    If none are known there is no rate, and all time counts alike.
    """
    computing = np.flatnonzero(known)
    rates: dict[str, list[float]] = {}
    for at in computing.tolist():
        of_type = rates.setdefault(plain(traced.graph.nodes[at].op), [0.0, 0.0])
        of_type[0] += float(known[at])
        of_type[1] += float(times_ns[at])
    every = [float(known.sum()), float(times_ns[computing].sum())]
    total = 0.0
    for at, op in unknown.items():
        names = (plain(op), plain(traced.graph.nodes[at].op))
        amount, time_ns = next((rates[name] for name in names if name in rates), every)
        total += float(times_ns[at]) * (_ratio(amount, time_ns) or 1.0)
    return total


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


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
# Kernels of oneDNN, and internal ops of TensorFlow.
_PREFIXES = ("_MklNative", "_Mkl", "_")


def float_ops(op: str, call: OpCall) -> int:
    """Return the float operations of one execution of an op.

    Raises UnknownOperands with the reason if there is no formula or a shape is missing.
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
    """Return the op that a kernel with a prefixed name computes."""
    for prefix in _PREFIXES:
        if op.startswith(prefix):
            return op.removeprefix(prefix)
    return op


# Ops without float operations: sizes, indices, times and random integers do not count.
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
# They call functions, whose ops are counted on their own.
CALLS: frozenset[str] = frozenset(
    (
        *("Case", "For", "If", "PartitionedCall", "RemoteCall", "StatefulPartitionedCall"),
        *("StatelessCase", "StatelessIf", "StatelessWhile", "SymbolicGradient", "While"),
    )
)
# The nodes that recorded copies between host and device belong to.
COPIES: frozenset[str] = frozenset(("CopyDeviceToDevice", "CopyDeviceToHost", "CopyHostToDevice"))
