"""Make up profiles and questions for tfprof: graphs, steps, op logs and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tfprobe.analysis.ops.cost_tree import ACCESSED, ATTRIBUTES, METRICS, ORDERS
from tfprobe.formats.schema import message_class

VIEWS = ("scope", "graph", "op", "code")
OPS = ("MatMul", "Conv2D", "Add", "VariableV2", "Placeholder", "NoOp", "Switch", "Merge")
SEGMENTS = ("a", "b", "a_1", "layer", "gradients", "MatMul_grad", "while", "A", "n.0", "x-y")
# Names that meet the rules for gradients, and their forward ops.
NAMES = (
    *("a/MatMul", "gradients/a/MatMul_grad/MatMul", "gradients/a/MatMul_grad/MatMul_1", "a"),
    *("gradients/b_grad/Reshape", "b", "tower/gradients/tower/a_grad/x", "gradients/_grad/odd"),
    *("x_grad/gradients/x", "gradients/unknown_grad/y", "_SOURCE", "RecvTensor", "a/b/c/d/e/f"),
)
CPU_DEVICES = (
    "/job:localhost/replica:0/task:0/device:CPU:0",
    "/job:worker/replica:0/task:1/device:CPU:0",
    "/cpu:0",
)
GPU_DEVICES = (
    "/job:localhost/replica:0/task:0/device:GPU:0",
    "/job:localhost/replica:0/task:0/device:GPU:1",
    "/gpu:0",
)
STREAM_DEVICES = (
    *("/device:GPU:0/stream:all", "/gpu:1/stream:all", "/gpu:0/stream:all"),
    "/job:localhost/replica:0/task:0/device:GPU:0:stream:all",
)
OTHER_DEVICES = (
    *("/device:GPU:0/stream:14", "/device:GPU:0/stream:13<MemcpyH2D>", "/device:GPU:0/memcpy"),
    *("/gpu:0/memcpy", "/device:GPU:0/sync", "/host:CPU", "gpu:0", "/device:XLA_GPU:0"),
    *("/device:TPU:0", "/device:GPU:0/stream:"),
)
UNKNOWN_NODES = (
    *("_SOURCE", "RecvTensor", "MEMCPYHtoD", "edge_3_x:RecvTensor", "_retval_a_0_0"),
    *("a/fused:_FusedConv2D", "while/unseen", "gradients/new_grad/n"),
)
FILES = ("/home/ada/train.py", "train.py", "/lib/layers/core.py", "/lib/ops/math_ops.py", "")
FUNCTIONS = ("main", "<module>", "build", "a_function_of_19_abc", "a_function_of_more_than_19", "")
ALLOCATORS = ("GPU_0_bfc", "GPU_0_bfc", "cpu", "gpu_bfc", "cuda_host_bfc", "GPU_1_bfc")
PATTERNS = (
    *(".*", ".*", "a.*", "a", "b", "gradients/.*", ".*MatMul.*", ".*_grad.*", "", "(", "[a-z]+/.*"),
    *("Conv2D", "MatMul|Add", "_kTFScopeParent", ".*gpu.*", ".*cpu:0", "train.py.*", ".*:main"),
    *("_trainable_variables", "while.*", "NoOp", ".*gradient.*", "_TFProfRoot", "(?i)MATMUL"),
)
# Around the places where numbers are written with another unit.
AMOUNTS = (0, 0, 1, 2, 7, 99, 999, 1000, 1004, 1005, 1015, 12345, 999_994, 999_999, 1_000_000)
LARGE_AMOUNTS = (1_005_000, 12_345_678, 999_999_999, 1_000_000_000, 5_000_000_123)
DIMENSIONS = (0, 1, 2, 3, 7, 28, 1024, -1)

amounts = st.sampled_from((*AMOUNTS, *LARGE_AMOUNTS))
few = st.integers(0, 3)
# A timeline of a graph has most in it; of ops there is none.
_draws = {
    "code": st.sampled_from((False, False, True)),
    "graph": st.booleans(),
    "op": st.sampled_from((False,) * 19 + (True,)),
    "scope": st.sampled_from((False, False, True)),
}
_one = st.sampled_from((0, 1, 1, 1))
# Most graphs have something to show; some are next to nothing.
_sizes = st.sampled_from((1, 6, 10, 14))


@dataclass(frozen=True)
class Step:
    """What is added at once: a step, and what more of the graph and its op log."""

    number: int
    metadata: bytes
    graph: bytes = b""
    op_log: bytes = b""

    @property
    def parts(self) -> tuple[int, bytes, bytes, bytes]:
        """As the engine takes it."""
        return self.number, self.graph, self.metadata, self.op_log


@dataclass(frozen=True)
class Case:
    """A profile in parts, and questions about it."""

    graph: bytes
    op_log: bytes
    steps: tuple[Step, ...]
    asks: tuple[tuple[str, Mapping[str, Any]], ...]


# tfprof orders by name what it does not know; by bytes accessed only tfprobe can.
_ORDERS_OF_TFPROF = (*(order for order in ORDERS if order != ACCESSED), "", "unknown")


def gradient_alone() -> Case:
    """Return a graph of one gradient with a line, whose forward op is missing."""
    graph = message_class("tfprobe.graph.GraphDef")()
    node = graph.node.add(name="gradients/a_grad/MatMul", op="MatMul")
    log = message_class("tfprobe.tfprof.OpLogProto")()
    log.id_to_string[1] = "train.py"
    traces = log.log_entries.add(name=node.name).code_def.traces
    traces.add(file_id=1, lineno=7, function_id=1)
    return Case(graph.SerializeToString(), log.SerializeToString(), steps=(), asks=())


@st.composite
def cases(draw: st.DrawFn, *, most_asks: int = 8) -> Case:
    """Return any case."""
    names = draw(st.lists(_names(), min_size=draw(_sizes), max_size=18, unique=True))
    later = draw(st.lists(_names(), max_size=2))
    numbers = draw(st.lists(st.sampled_from((0, 0, 1, 3, 100)), min_size=draw(_one), max_size=3))
    devices = draw(
        st.sampled_from(
            (
                CPU_DEVICES[:1],
                (*CPU_DEVICES[:1], *GPU_DEVICES[:1], *STREAM_DEVICES[:1]),
                (*CPU_DEVICES[:1], *GPU_DEVICES[:1]),
                (*CPU_DEVICES[2:], *GPU_DEVICES[2:], *STREAM_DEVICES[1:3], *OTHER_DEVICES[:4]),
                (*CPU_DEVICES, *GPU_DEVICES, *STREAM_DEVICES, *OTHER_DEVICES),
            )
        )
    )
    steps = []
    for number in numbers:
        extra = later if later and draw(st.booleans()) else []
        steps.append(
            Step(
                number=number,
                metadata=draw(_run_metadata([*names, *later], devices)),
                graph=draw(_graph(extra, names)) if extra else b"",
                op_log=draw(_op_log([*names, *extra])) if draw(few) == 3 else b"",
            )
        )
    asks = draw(
        st.lists(
            _asks(names, numbers),
            min_size=4,
            max_size=most_asks,
        )
    )
    op_log = draw(_op_log([*names, *later])) if draw(few) else b""
    return Case(draw(_graph(names, names)), op_log, tuple(steps), tuple(asks))


def _names() -> st.SearchStrategy[str]:
    paths = st.lists(st.sampled_from(SEGMENTS), min_size=1, max_size=4).map("/".join)
    return st.one_of(st.sampled_from(NAMES), paths, paths)


@st.composite
def _graph(draw: st.DrawFn, names: list[str], producers: list[str]) -> bytes:
    message = message_class("tfprobe.graph.GraphDef")()
    has_cycles = draw(few) == 3
    has_dangling = draw(st.integers(0, 9)) == 9
    for at, name in enumerate(names):
        node = message.node.add(name=name, op=draw(st.sampled_from(OPS)))
        earlier = producers if has_cycles else producers[:at]
        if has_dangling and draw(st.booleans()):
            node.input.append("nowhere/to/be/found:1")
        if earlier:
            for producer in draw(st.lists(st.sampled_from(earlier), max_size=3)):
                node.input.append(
                    draw(st.sampled_from(("{}", "{}", "{}:1", "^{}"))).format(producer)
                )
        if draw(few) == 3:
            draw(_shape(node.attr["shape"].shape))
        for _ in range(draw(st.sampled_from((0, 1, 1, 2)))):
            draw(_shape(node.attr["_output_shapes"].list.shape.add()))
    return bytes(message.SerializeToString())


@st.composite
def _shape(draw: st.DrawFn, shape: Any) -> None:
    shape.unknown_rank = draw(st.integers(0, 9)) == 9
    if not shape.unknown_rank:
        for size in draw(st.lists(st.sampled_from(DIMENSIONS), max_size=4)):
            shape.dim.add(size=size)


@st.composite
def _run_metadata(draw: st.DrawFn, names: list[str], devices: tuple[str, ...]) -> bytes:
    message = message_class("tfprobe.step_stats.RunMetadata")()
    message.step_stats.SetInParent()
    # Epochs of µs, and those of a test.
    start_us = draw(st.sampled_from((1_000, 1_700_000_000_000_000)))
    for device in draw(st.lists(st.sampled_from(devices), min_size=1, max_size=5)):
        rows = message.step_stats.dev_stats.add(device=device).node_stats
        known = st.one_of(st.sampled_from(names), st.sampled_from((*names, *UNKNOWN_NODES)))
        for name in draw(st.lists(known, min_size=draw(few), max_size=12)):
            suffix = draw(st.sampled_from(("", "", ":MatMul", ":Conv2D@@kernel", "@@kernel")))
            row = rows.add(node_name=name + suffix)
            start = draw(st.one_of(st.integers(0, 9), st.integers(0, 900)))
            row.all_start_micros = start and start_us + start
            row.op_end_rel_micros = draw(st.one_of(st.integers(0, 30), amounts))
            row.all_end_rel_micros = row.op_end_rel_micros + 1
            if draw(st.booleans()):
                draw(_memory(row, start_us))
    return bytes(message.SerializeToString())


@st.composite
def _memory(draw: st.DrawFn, row: Any, start_us: int) -> None:
    for allocator in draw(st.lists(st.sampled_from(ALLOCATORS), max_size=2)):
        used = row.memory.add(
            allocator_name=allocator,
            total_bytes=draw(amounts),
            peak_bytes=draw(amounts),
            live_bytes=draw(amounts),
            # Mostly as much as there can be, so that there is a list of who holds it.
            allocator_bytes_in_use=draw(st.one_of(st.just(LARGE_AMOUNTS[-1]), amounts)),
        )
        for _ in range(draw(st.sampled_from((0, 0, 1, 3)))):
            used.allocation_records.add(
                alloc_micros=start_us + draw(st.integers(0, 900)),
                alloc_bytes=draw(amounts) * draw(st.sampled_from((1, 1, -1))),
            )
    if draw(st.booleans()):
        row.memory_stats.temp_memory_size = draw(amounts)
        row.memory_stats.persistent_memory_size = draw(amounts)
    for slot in range(draw(st.sampled_from((0, 0, 1, 2)))):
        described = row.output.add(slot=slot).tensor_description
        if draw(few):
            described.allocation_description.requested_bytes = draw(amounts)
            described.allocation_description.allocated_bytes = draw(amounts)


@st.composite
def _op_log(draw: st.DrawFn, names: list[str]) -> bytes:
    message = message_class("tfprobe.tfprof.OpLogProto")()
    strings = draw(st.permutations((*FILES, *FUNCTIONS)))
    for number, text in enumerate(strings):
        message.id_to_string[number] = text
    # Few lines, so that ops share them. The engine ends the process where a string is not there.
    numbers = st.integers(0, len(strings) - 1)
    frames = [
        (draw(numbers), draw(st.integers(-1, 30)), draw(numbers))
        for _ in range(draw(st.integers(1, 8)))
    ]
    has_code = draw(st.sampled_from((0, 1, 1, 1, 1, 1)))
    for name in names:
        if not draw(few):
            continue
        entry = message.log_entries.add(name=name, float_ops=draw(st.sampled_from((0, 3, 2048))))
        entry.types.extend(
            draw(st.lists(st.sampled_from(("_trainable_variables", "mine")), max_size=2))
        )
        if not has_code:
            continue
        for file, line, function in draw(st.lists(st.sampled_from(frames), min_size=1, max_size=4)):
            entry.code_def.traces.add(
                file_id=file, lineno=line, function_id=function, func_start_line=-1
            )
    return bytes(message.SerializeToString())


@st.composite
def _asks(draw: st.DrawFn, names: list[str], steps: list[int]) -> tuple[str, dict[str, Any]]:
    view = draw(st.sampled_from(VIEWS))
    chosen = draw(_options(steps))
    # Half of all questions are about everything: what filters hide cannot differ.
    if draw(st.booleans()):
        chosen |= draw(_filters(names))
    if draw(_draws[view]):
        chosen["output"] = "timeline"
    return view, chosen


@st.composite
def _options(draw: st.DrawFn, steps: list[int]) -> dict[str, Any]:
    everything = {
        **{f"{name}_regexes": [".*"] for name in ("account_type", "start_name", "show_name")},
        **{f"{name}_regexes": [] for name in ("trim_name", "hide_name")},
    }
    return {
        **everything,
        "max_depth": draw(st.sampled_from((10, 10, 100, 10_000))),
        "step": draw(st.sampled_from((-1, *steps, *steps))),
        "order_by": draw(st.sampled_from(_ORDERS_OF_TFPROF)),
        "account_displayed_op_only": draw(st.booleans()),
        "select": draw(st.one_of(
            st.just(ATTRIBUTES), st.lists(st.sampled_from((*ATTRIBUTES, "unknown")), max_size=6)
        )),
    }  # fmt: skip


@st.composite
def _filters(draw: st.DrawFn, names: list[str]) -> dict[str, Any]:
    patterns = st.sampled_from((*PATTERNS, *names))
    chosen: dict[str, Any] = {}
    if draw(st.booleans()):
        chosen["max_depth"] = draw(st.sampled_from((-1, 0, 1, 2, 3, 4, 5)))
    if draw(st.integers(0, 19)) == 19:
        chosen["step"] = 42
    for metric in draw(st.lists(st.sampled_from(METRICS), max_size=2)):
        chosen[f"min_{metric}"] = draw(amounts)
    for name in ("account_type", "start_name", "show_name", "trim_name", "hide_name"):
        if draw(few) == 3:
            chosen[f"{name}_regexes"] = draw(st.lists(patterns, max_size=3))
    return chosen
