"""Files that were damaged are refused or read: nothing else happens."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import captures, kineto
from tests.support.captures import CPU, GPU, Node, TraceEvent
from tests.support.gpu_traces import training_step
from tests.support.rundir import UNIX_NS
from tfprobe.analysis.ops.code_view import code
from tfprobe.analysis.ops.cost_tree import ATTRIBUTES, ViewOptions
from tfprobe.analysis.ops.op_view import op
from tfprobe.analysis.ops.scope_view import graph, scope
from tfprobe.analysis.ops.tfprof_records import costs
from tfprobe.errors import UnreadableInput
from tfprobe.export.profile_proto import profile_proto
from tfprobe.export.timeline import graph_timeline, tree_timeline
from tfprobe.formats import run_metadata, xspace
from tfprobe.formats.graph_profile import GraphProfileBuilder
from tfprobe.formats.profile_proto import graph_profile
from tfprobe.formats.schema import message_class
from tfprobe.formats.trace import Trace
from tfprobe.profile.capture_tables import Executions
from tfprobe.profile.reader.file import file_profile
from tfprobe.profile.records import GraphProfile
from tfprobe.tfprof import layout

# Of each kind of file; seeded, so that a failure comes again.
MUTANTS = 2500


def graph_bytes() -> bytes:
    message = message_class("tfprobe.graph.GraphDef")()
    for at in range(12):
        node = message.node.add(name=f"a/b{at % 3}/n{at}", op="MatMul", input=[f"a/b0/n{at - 3}"])
        node.attr["shape"].shape.dim.add(size=at)
        node.attr["_output_shapes"].list.shape.add().dim.add(size=3)
        node.attr["data_format"].s = b"NHWC"
    return bytes(message.SerializeToString())


def step_bytes() -> bytes:
    records = [(3, 64), (9, -64)]
    nodes = [
        Node(f"a/b{at % 3}/n{at}", at, 5 + at, requested_bytes=at, records=records, in_use_bytes=9)
        for at in range(12)
    ]
    return captures.run_metadata({CPU: nodes, f"{GPU}/stream:all": nodes[:4]})


def op_log_bytes() -> bytes:
    message = message_class("tfprobe.tfprof.OpLogProto")()
    for at in range(12):
        entry = message.log_entries.add(name=f"a/b{at % 3}/n{at}", float_ops=at, types=["mine"])
        entry.code_def.traces.add(file_id=1, lineno=at, function_id=2)
    message.id_to_string[1] = "/home/ada/train.py"
    message.id_to_string[2] = "main"
    return bytes(message.SerializeToString())


def profile_bytes() -> bytes:
    message = message_class("tfprobe.tfprof.ProfileProto")()
    message.steps.append(0)
    for at in range(12):
        node = message.nodes[at]
        node.name, node.op, node.id = f"a/b{at % 3}/n{at}", "MatMul", at
        node.inputs[0] = at - 3
        node.canonical_device = "/job:localhost/replica:0/task:0/device:gpu:0"
        node.shape.append(at)
        record = node.execs[0]
        record.run_count, record.all_start_micros, record.latest_end_micros = 1, 100, 110
        record.cpu_execs[node.canonical_device].times.add().int64_values.extend([100, 10])
        record.memory_execs.add(memory_micros=5, requested_bytes=at, allocator_bytes_in_use=9)
        record.allocations.add(alloc_micros=3, alloc_bytes=4)
        node.trace.traces.add(file_id=1, lineno=at, function_id=2)
    message.id_to_string[1] = "/home/ada/train.py"
    return bytes(message.SerializeToString())


def xspace_bytes() -> bytes:
    events = [TraceEvent(f"a/b{at % 3}/n{at}:MatMul", at, 5 + at) for at in range(12)]
    facts = {"name": "a/get", "kernel_type": "IteratorGetNext"}
    events += [
        TraceEvent("ExecutorState::ProcessAsync::Start", 5, 1, {**facts, "_p": 9}),
        TraceEvent("ExecutorState::ProcessAsync::Done", 50, 1, {**facts, "_c": 9}),
        TraceEvent("EagerLocalExecute: Relu", 90, 5),
        TraceEvent("IteratorGetNextOp::DoCompute", 8, 30),
        TraceEvent("train", 8, 30, {"tf_function_call": "traced-nonXla"}),
        TraceEvent("EagerLocalExecute: __inference_f_1", 100, 2000),
        TraceEvent("EagerKernelExecute", 1900, 5),
        TraceEvent("cuLaunchKernel", 1901, 1, {"correlation_id": 4}),
        TraceEvent("PrefetchProduce", 2000, 90, {"element_id": 4}),
        TraceEvent("Iterator::Root::Map", 2001, 80, {"id": 7, "parent_id": 6}),
        TraceEvent("InstantiatedCapturedFunction::Run", 2002, 9, {"id": 8}),
        TraceEvent("ExecutorState::Process", 2003, 5, {"id": 8}),
        TraceEvent("PyFunc:PyFunc", 2004, 3),
    ]
    kernels = [TraceEvent("sgemm", 3, 4, {"tf_op": "a/b1/n1:MatMul"}), TraceEvent("MemcpyH2D")]
    lines = {"tf_Compute/1": events}
    return captures.xspace(
        {"/host:CPU": lines, "/device:GPU:0": {"Stream #1": kernels}}, start_ns=UNIX_NS
    )


def mutant(content: bytes, chance: random.Random) -> bytes:
    """Return the bytes with a few of them changed, cut out, doubled or the rest cut off."""
    mutated = bytearray(content)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(mutated) or 1)
        # Changed bytes are mostly read, and so go deeper than bytes that are gone.
        kind = chance.choices(["change", "cut", "double", "end"], [20, 1, 1, 1])[0]
        if kind == "change" and mutated:
            mutated[at] = chance.randrange(256)
        elif kind == "cut":
            del mutated[at : at + chance.randint(1, 9)]
        elif kind == "double":
            mutated[at:at] = mutated[at : at + chance.randint(1, 40)]
        else:
            del mutated[at:]
    return bytes(mutated)


def from_files(graph_content: bytes, step_content: bytes, log_content: bytes) -> GraphProfile:
    builder = GraphProfileBuilder()
    builder.add_graph(graph_content)
    builder.add_op_log(log_content)
    builder.add_step(0, step_content)
    return builder.profile()


READERS: dict[str, tuple[Callable[[], bytes], Callable[[bytes], GraphProfile]]] = {
    "graph": (graph_bytes, lambda content: from_files(content, step_bytes(), op_log_bytes())),
    "step": (step_bytes, lambda content: from_files(graph_bytes(), content, op_log_bytes())),
    "op_log": (op_log_bytes, lambda content: from_files(graph_bytes(), step_bytes(), content)),
    "profile": (profile_bytes, graph_profile),
}


def rows_of(trace: Trace) -> Executions:
    """Return the rows, after a look at all else."""
    for column in (trace.spans.name, trace.spans.detail, trace.spans.lane):
        assert all(isinstance(trace.spans.strings[at], str) for at in column.tolist())
    assert (trace.spans.start_ns[1:] >= trace.spans.start_ns[:-1]).all()
    assert (trace.allocations.at_ns[1:] >= trace.allocations.at_ns[:-1]).all()
    return trace.rows


CAPTURES: dict[str, tuple[Callable[[], bytes], Callable[[bytes], Executions]]] = {
    "run_metadata": (step_bytes, lambda content: rows_of(run_metadata.read(content))),
    "xspace": (xspace_bytes, lambda content: rows_of(xspace.read(content))),
    "xspace_of_a_gpu": (
        lambda: training_step(start_ns=UNIX_NS),
        lambda content: rows_of(xspace.read(content)),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", READERS)
def test_a_damaged_file_is_refused_or_read(kind: str) -> None:
    """Every view and timeline of what could be read is made; no other error is raised."""
    write, read = READERS[kind]
    chance = random.Random(20261121)
    content = write()
    show_all(read(content))

    read_well = 0
    for _ in range(MUTANTS):
        try:
            profile = read(mutant(content, chance))
        except UnreadableInput:
            continue
        show_all(profile)
        read_well += 1

    assert read_well > MUTANTS // 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", CAPTURES)
def test_a_damaged_capture_is_refused_or_read(kind: str) -> None:
    """Its rows can be looked at; no other error is raised."""
    write, read = CAPTURES[kind]
    chance = random.Random(20261121)
    content = write()

    read_well = 0
    for _ in range(MUTANTS):
        try:
            rows = read(mutant(content, chance))
        except UnreadableInput:
            continue
        assert len(list(rows)) == len(rows)
        read_well += 1

    assert len(read(content)) > 0
    assert read_well > MUTANTS // 10


def timeline_bytes() -> bytes:
    names = {1: f"{CPU} Compute", 2: "/gpu:0/memcpy Compute", 3: "/host:CPU", 4: "/device:GPU:0"}
    head = [
        {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
        for pid, name in names.items()
    ]
    facts = {"name": "_SOURCE", "op": "MEMCPYHtoD", "correlation_id": "4", "id": "7"}
    facts |= {"memcpy_details": "kind_src:pageable kind_dst:device size:64"}
    boxes = [
        {"ph": "X", "pid": at % 4 + 1, "tid": at % 2, "ts": at, "dur": 5 + at, "args": facts}
        for at in range(24)
    ]
    for at, box in enumerate(boxes):
        box["name"] = ("a/b:MatMul", "MemcpyH2D", "Iterator::Root", "cuLaunchKernel")[at // 4 % 4]
    return json.dumps({"traceEvents": [*head, *boxes]}).encode()


def changed_values(content: bytes, chance: random.Random) -> bytes:
    """Return a JSON document with a few of its values put in place of others."""
    document = json.loads(content)
    places = list(_places(document))
    for _ in range(chance.randint(1, 4)):
        holder, key = places[chance.randrange(len(places))]
        other, other_key = places[chance.randrange(len(places))]
        odd = [None, -1, 2**70, 1e308, float("nan"), "", [], {}, True, other[other_key]]
        holder[key] = chance.choice(odd)
        try:
            text = json.dumps(document)
        except ValueError:
            break  # a value was put into itself
    else:
        return text.encode()
    return content


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in entries if isinstance(value, (dict, list)) else ():
        yield value, key
        if isinstance(inner, (dict, list)):
            yield from _places(inner)


Mutate = Callable[[bytes, random.Random], bytes]
FILES: dict[str, tuple[Callable[[], bytes], Mutate]] = {
    "run_metadata": (step_bytes, mutant),
    "xspace": (xspace_bytes, mutant),
    "xspace_of_a_gpu": (training_step, mutant),
    "profile": (profile_bytes, mutant),
    "timeline": (timeline_bytes, changed_values),
    "kineto": (kineto.training, changed_values),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_a_damaged_file_is_no_profile_or_one(kind: str, tmp_path: Path) -> None:
    """Each row has its step; no other error is raised."""
    write, mutate = FILES[kind]
    chance = random.Random(20261121)
    content = write()
    path = tmp_path / "recording"

    read_well = 0
    for _ in range(MUTANTS // 3):
        path.write_bytes(mutate(content, chance))
        try:
            profile = file_profile(path)
        except UnreadableInput:
            continue
        for table in (profile.executions, profile.spans, profile.allocations):
            assert set(table.capture.tolist()) <= set(range(len(profile.captures)))
        read_well += 1

    path.write_bytes(content)
    assert file_profile(path).captures
    assert read_well > MUTANTS // 30


@pytest.mark.parametrize("duration_us", [2**40, 2**53, 2**62])
def test_times_beyond_all_bounds_are_refused(duration_us: int) -> None:
    """A number that cannot be added up is never shown wrapped round."""
    nodes = [Node("a/b0/n0", 0, duration_us), Node("a/b1/n1", 0, duration_us)]
    profile = from_files(graph_bytes(), captures.run_metadata({CPU: nodes}), b"")

    if duration_us < 2**50:
        show_all(profile)
    else:
        with pytest.raises(UnreadableInput, match="damaged"):
            show_all(profile)


def show_all(profile: GraphProfile) -> None:
    chosen = ViewOptions(select=ATTRIBUTES, order_by="micros", max_depth=100, as_engine=True)
    of_step = costs(profile, -1)
    layout.scope_body(profile, scope(profile, of_step, chosen), chosen)
    shown = graph(profile, of_step, chosen)
    layout.scope_body(profile, shown, chosen)
    layout.op_body(profile, of_step, op(profile, of_step, chosen), chosen)
    layout.code_body(profile, code(profile, of_step, chosen).shown, chosen)
    tree_timeline(scope(profile, of_step, chosen))
    for step in profile.steps:
        graph_timeline(profile, shown, step)
    assert graph_profile(profile_proto(profile)).steps == profile.steps
