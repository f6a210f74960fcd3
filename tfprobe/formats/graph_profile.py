"""Build a graph's profile from GraphDef, RunMetadata and OpLogProto, by the rules of tfprof.

The rules are those of TensorFlow's core/profiler/internal/tfprof_node.cc and tfprof_stats.cc. A
step lists the devices each node ran on; the host's rows are its CPU time, `stream:all` rows its
accelerator time, and a node stays on the first device it was placed on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tfprobe.formats.function_calls import FunctionCalls
from tfprobe.formats.node_attributes import attributes, output_dtypes, output_number
from tfprobe.formats.schema import parse, parse_either
from tfprobe.profile.graph import Frame, Graph, Node, Shape
from tfprobe.profile.records import Allocation, GraphProfile, MemoryUse, Record, Span

_CANONICAL = re.compile(r".*/(device:gpu|gpu|device:cpu|cpu):\d+")
# Names in a step that are not nodes of the graph.
_NO_NODES = ("RecvTensor", "_SOURCE")
# tfprof follows memory in use only for allocators with this in their name.
_GPU_ALLOCATOR = "GPU"


class GraphProfileBuilder:
    """Collects graphs, op logs and steps; `profile` is the result so far.

    A step is kept as bytes, and decoded when it is needed: adding a step delays the job little, and
    the bytes are smaller than the decoded objects.
    """

    def __init__(self) -> None:
        """Start with no nodes."""
        self._nodes: dict[str, Node] = {}
        self._devices: dict[str, str] = {}
        self._records: dict[str, dict[int, _OpenRecord]] = {}
        self._steps: set[int] = set()
        self._covered: set[str] = set()
        self._lacks_stream = False
        self._strings: dict[int, str] = {}
        self._unread: list[tuple[int, bytes]] = []

    def add_graph(self, content: bytes) -> None:
        """Add the nodes of a GraphDef, binary or text; the first node of a name is kept.

        Raises UnreadableInput if the bytes are not a GraphDef.
        """
        graph = parse_either(content, "tfprobe.graph.GraphDef")
        # A node known only from a step now belongs to the graph, whatever a later graph says.
        self._read_steps()
        for node in graph.node:
            if node.name not in self._nodes:
                self._nodes[node.name] = _node(node)

    def add_op_log(self, content: bytes) -> None:
        """Add types, float operations and code of the nodes that an OpLogProto names.

        Its strings are numbered; if two logs use one number, the first keeps it, as in tfprof.

        Raises UnreadableInput if the bytes are not an OpLogProto.
        """
        log = parse(content, "tfprobe.tfprof.OpLogProto")
        self._read_steps()
        self._strings = {**log.id_to_string, **self._strings}
        for entry in log.log_entries:
            node = self._nodes.get(entry.name)
            if node is None:
                continue
            node = replace(node, types=node.types | set(entry.types))
            if entry.float_ops:
                node = replace(node, float_ops=entry.float_ops)
            if entry.HasField("code_def") and node.trace is None:
                node = replace(node, trace=trace(entry.code_def, self._strings))
            self._nodes[entry.name] = node

    def add_step(self, step: int, content: bytes) -> None:
        """Add a RunMetadata as `step`, merging it with what is already known of that step.

        Raises UnreadableInput if the bytes are not a RunMetadata.
        """
        metadata = parse(content, "tfprobe.step_stats.RunMetadata")
        if not metadata.HasField("step_stats"):
            return
        self._steps.add(step)
        self._unread.append((step, content))

    def profile(self) -> GraphProfile:
        """Return everything added so far."""
        self._read_steps()
        names = list(self._nodes)
        return GraphProfile(
            graph=Graph(tuple(self._nodes.values())),
            steps=tuple(sorted(self._steps)),
            devices=tuple(self._devices.get(name) for name in names),
            records=tuple(
                {step: each.closed() for step, each in self._records.get(name, {}).items()}
                for name in names
            ),
            covered=len(self._covered),
            lacks_stream=self._lacks_stream,
        )

    def _read_steps(self) -> None:
        for step, content in self._unread:
            self._read_step(step, parse(content, "tfprobe.step_stats.RunMetadata").step_stats)
        self._unread.clear()

    def _read_step(self, step: int, stats: Any) -> None:
        gpus = []
        for device in stats.dev_stats:
            name = device.device.lower()
            if "gpu" in name:
                gpus.append(name)
            self._add_device(step, name, device.node_stats)
        if gpus and not any("stream:all" in name for name in gpus):
            self._lacks_stream = True

    def _add_device(self, step: int, device: str, executions: Iterable[Any]) -> None:
        is_accelerator = "stream:all" in device
        is_canonical = not is_accelerator and _CANONICAL.fullmatch(device) is not None
        on_host = "cpu" in device
        for stats in executions:
            name = stats.node_name.partition(":")[0]
            if not self._cover(name):
                continue
            if is_canonical and self._devices.setdefault(name, device) != device:
                continue
            record = self._record(name, step)
            start_us = stats.all_start_micros
            if not start_us > 0:
                continue
            span = Span(start_us, stats.op_end_rel_micros or 1)
            record.add_span(span)
            if is_accelerator:
                record.accelerator.setdefault(device, []).append(span)
            elif is_canonical:
                record.cpu.setdefault(device, []).append(span)
                record.run_count += 1
                record.add_memory(stats, on_host=on_host)

    def _cover(self, name: str) -> bool:
        """Record that a step contains a node, and return whether it is one."""
        if name in self._nodes:
            self._covered.add(name)
        elif name in _NO_NODES or "MEMCPY" in name:
            return False
        else:
            self._nodes[name] = Node(name=name, op=name, types=frozenset({name}))
        return True

    def _record(self, name: str, step: int) -> _OpenRecord:
        of_node = self._records.setdefault(name, {})
        record = of_node.get(step)
        if record is None:
            record = of_node[step] = _OpenRecord()
        return record


class _OpenRecord:
    """A Record under construction."""

    __slots__ = tuple(Record.__dataclass_fields__)

    def __init__(self) -> None:
        self.run_count = 0
        self.start_us = 0
        self.end_us = 0
        self.accelerator: dict[str, list[Span]] = {}
        self.cpu: dict[str, list[Span]] = {}
        self.memory: list[MemoryUse] = []
        self.allocations: tuple[Allocation, ...] = ()

    def add_span(self, span: Span) -> None:
        self.start_us = min(self.start_us or span.start_us, span.start_us)
        self.end_us = max(self.end_us, span.start_us + span.duration_us)

    def add_memory(self, stats: Any, *, on_host: bool) -> None:
        # A single pass: this is most of the cost of a step.
        total = peak = live = in_use = temporary = persistent = 0
        for each in stats.memory:
            total += each.total_bytes
            peak += each.peak_bytes
            live += each.live_bytes
            if _GPU_ALLOCATOR in each.allocator_name:
                in_use = max(in_use, each.allocator_bytes_in_use)
                self.allocations += tuple(map(_allocation, each.allocation_records))
        if stats.HasField("memory_stats"):
            temporary = stats.memory_stats.temp_memory_size
            persistent = stats.memory_stats.persistent_memory_size
        self.memory.append(
            MemoryUse(
                at_us=stats.all_start_micros + stats.op_end_rel_micros,
                requested_bytes=total + persistent + temporary,
                peak_bytes=peak + persistent + temporary,
                residual_bytes=live + persistent,
                output_bytes=_output_bytes(stats.output),
                temporary_bytes=temporary,
                persistent_bytes=persistent,
                on_host=on_host,
                in_use_bytes=in_use,
            )
        )

    def closed(self) -> Record:
        return Record(
            run_count=self.run_count,
            start_us=self.start_us,
            end_us=self.end_us,
            accelerator={name: tuple(spans) for name, spans in self.accelerator.items()},
            cpu={name: tuple(spans) for name, spans in self.cpu.items()},
            memory=tuple(self.memory),
            allocations=self.allocations,
        )


def graph_nodes(content: bytes) -> list[Node]:
    """Return the nodes of a GraphDef, then those of its functions by their names inside them.

    A function that nothing calls is a copy of one that is called: its nodes use the same variables.

    Raises UnreadableInput if the bytes are not a GraphDef.
    """
    return nodes_and_functions(content)[0]


def nodes_and_functions(content: bytes) -> tuple[list[Node], frozenset[str]]:
    """Return the nodes of a GraphDef as graph_nodes does, and the names of its functions.

    Raises UnreadableInput if the bytes are not a GraphDef.
    """
    graph = parse(content, "tfprobe.graph.GraphDef")
    functions = graph.library.function
    calls = FunctionCalls(graph)
    bodies = [
        ("", graph.node),
        *((function.signature.name, function.node_def) for function in functions),
    ]
    used: dict[str, tuple[str, ...]] = {}
    for name, body in bodies:
        for node in body:
            used[node.name] = calls.variables(name, node) or used.get(node.name, ())
    nodes = [
        replace(node, variables=used[node.name]) for _, body in bodies for node in nodes_of(body)
    ]
    return nodes, frozenset(name for name, _ in bodies[1:])


def trace(code: Any, strings: Mapping[int, str]) -> tuple[Frame, ...]:
    """Return the frames of a CodeDef, whose strings are in a separate table."""
    return tuple(
        Frame(
            file=strings.get(each.file_id, ""),
            line=each.lineno,
            function=strings.get(each.function_id, ""),
            function_line=each.func_start_line,
        )
        for each in code.traces
    )


def nodes_of(body: Iterable[Any], wanted: Callable[[Any], bool] = lambda _: True) -> list[Node]:
    """Return the wanted nodes of a graph or of a function's body. Any: made at run time."""
    ops = {node.name: node.op for node in body}
    return [_node(node, ops) for node in body if wanted(node)]


def _node(node: Any, ops: Mapping[str, str] = MappingProxyType({})) -> Node:
    """Return a node; `ops` has the ops of its possible inputs."""
    found = node.attr
    shape: Shape = ()
    if "shape" in found and found["shape"].HasField("shape"):
        shape = _shape(found["shape"].shape)
    outputs = found["_output_shapes"].list.shape if "_output_shapes" in found else ()
    producers = [_producer(text, ops) for text in node.input]
    return Node(
        name=node.name,
        op=node.op,
        inputs={index: name for index, (name, _) in enumerate(producers)},
        sources={index: output for index, (_, output) in enumerate(producers) if output},
        shape=shape,
        output_shapes={index: _shape(each) for index, each in enumerate(outputs)},
        types=frozenset({node.op}),
        attributes=attributes(found),
        dtypes=output_dtypes(node.op, found),
        waits=frozenset(at for at, text in enumerate(node.input) if text.startswith("^")),
    )


def _producer(text: str, ops: Mapping[str, str]) -> tuple[str, int]:
    """Return the producer that an input names, and the index of its output.

    Inside a function an input also names an output argument of the producer's op, before the
    number.
    """
    name, _, output = text.removeprefix("^").partition(":")
    argument, _, number = output.rpartition(":")
    at = int(number) if number.isascii() and number.isdigit() else 0
    return name, output_number(ops.get(name, ""), argument, at)


def _shape(shape: Any) -> Shape:
    if shape.unknown_rank:
        return ()
    return tuple(dim.size for dim in shape.dim) or (1,)


def _output_bytes(outputs: Iterable[Any]) -> int:
    total = 0
    for output in outputs:
        allocation = output.tensor_description.allocation_description
        total += max(allocation.allocated_bytes, allocation.requested_bytes)
    return total


def _allocation(record: Any) -> Allocation:
    return Allocation(record.alloc_micros, record.alloc_bytes)
