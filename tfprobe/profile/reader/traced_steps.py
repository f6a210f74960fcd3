"""Join the traced steps of a loop with its graphs and code maps, by node name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.formats.graph_profile import graph_nodes, nodes_and_functions
from tfprobe.formats.xspace import ran_nodes, ran_programs
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.graph import (
    Frame,
    Graph,
    LoopVariable,
    Node,
    Output,
    Shape,
    TracedLoop,
    are_alike,
    known_name,
)
from tfprobe.profile.hlo import DTYPES, HloShape, RanProgram
from tfprobe.profile.profile import Capture, Loop, Profile
from tfprobe.profile.reader import shapes
from tfprobe.profile.tables import Int32s
from tfprobe.runs.layout import RUN_METADATA_SUFFIX, XSPACE_SUFFIX, ProcessFolder, RunFolder
from tfprobe.runs.process_folder.events import read_events
from tfprobe.runs.process_folder.jsonl import CELL_MARKS
from tfprobe.runs.safe_files import content_of

# An op that runs a whole function, such as one compiled by XLA.
_CALLED = re.compile(r"__inference_(?P<name>.+)_\d+\Z")
# Nodes that stand for no execution.
_NOT_RUN = frozenset({"parameter"})
_CELL_MARKS = tuple(mark.decode() for mark in CELL_MARKS)
# The nodes that represent copies between host and device.
COPIES: Mapping[Place, str] = {
    Place.HOST_TO_DEVICE: "copies/CopyHostToDevice",
    Place.DEVICE_TO_HOST: "copies/CopyDeviceToHost",
    Place.DEVICE_TO_DEVICE: "copies/CopyDeviceToDevice",
}


def sampled(
    folder: RunFolder, profile: Profile, loop: Loop, *, with_shapes: bool = False
) -> TracedLoop:
    """Return the traced steps of `loop`, which is one of `profile`, read from `folder`.

    `with_shapes` adds the shapes of what ran, which requires reading captures again. Without a
    readable graph and code map, nodes are known only by their executions.
    """
    captures = captures_of(loop, profile)
    rows = profile.executions
    chosen = np.isin(rows.capture, [capture.index for capture in captures])
    chosen &= ~rows.background  # input threads prepare other steps
    process = process_folder(folder, profile, loop)
    nodes, shared = _recorded_nodes(process, loop)
    rows = rows.only(chosen)
    ran = (rows.strings[at] for at in np.unique(rows.name).tolist())
    callers: Mapping[str, tuple[Frame, ...]] = {}
    if process is not None and any(map(_CALLED.match, ran)):
        callers = _callers(process, loop)
    instructions: Mapping[str, Node] = profile.nodes.get(loop.process, {})
    if process is not None:
        read = instructions_of(captures, lambda file: content_of(process.capture(file)))
        instructions = {**instructions, **read}
    found = join(loop, captures, rows, nodes, callers, instructions)
    found = replace(found, shared_names=shared)
    if process is not None and any(map(_is_of_cell, found.graph.nodes)):
        # Imported here: few runs are of notebooks.
        from tfprobe.profile.reader.notebook_cells import with_cell_names

        found = with_cell_names(found, process.root)
    if process is not None and any(capture.programs for capture in captures):
        ran_in = programs_of(captures, lambda file: content_of(process.capture(file)))
        found = replace(found, programs=ran_in)
    return with_shapes_of(folder, profile, found) if with_shapes else found


def with_shapes_of(folder: RunFolder, profile: Profile, found: TracedLoop) -> TracedLoop:
    """Return traced steps of `profile`, read from `folder`, with the shapes of what ran."""
    process = process_folder(folder, profile, found.loop)
    if process is None:
        return found
    looked_at = found.captures[:1] + found.captures[1:][-1:]
    files = dict.fromkeys(capture.file for capture in looked_at)  # one file may hold all steps
    paths = [process.capture(file) for file in files]
    traces = [path for path in paths if path.name.endswith(XSPACE_SUFFIX)]
    steps = [path for path in paths if path.name.endswith(RUN_METADATA_SUFFIX)]
    steps.append(process.optimized_graph(f"work-{found.loop.index}"))
    found = with_what_ran(found, traces=_contents(traces), steps=_contents(steps))
    found = with_programs(found, lambda file: content_of(process.capture(file)))
    graphs = [process.graph(fingerprint) for fingerprint in _fingerprints(process, found.loop)]
    return _with_passed(found, _contents(graphs))


def costliest_loop(folder: RunFolder, profile: Profile) -> tuple[TracedLoop, ...]:
    """Return the longest traced loop with its graph and code map; empty if none was traced."""
    loops = [loop for loop in profile.loops if captures_of(loop, profile)]
    if not loops:
        return ()
    return (sampled(folder, profile, max(loops, key=lambda loop: loop.times.sum_ns)),)


def with_what_ran(
    found: TracedLoop, *, traces: Iterable[bytes] = (), steps: Iterable[bytes] = ()
) -> TracedLoop:
    """Return traced steps with the shapes and optimized nodes of XSpaces and RunMetadata.

    Unreadable files are skipped.
    """
    nodes = {node.name: node for node in found.graph.nodes}
    known_shapes: list[tuple[Output, Shape]] = []
    optimized: dict[tuple[str, str], Node] = {}

    def name_of(name: str) -> str:
        return known_name(name, nodes)

    for content in traces:
        try:
            known_shapes += shapes.trace_shapes(content, name_of, nodes)
        except UnreadableInput:
            continue  # reported as a problem when it was decoded
    for content in steps:
        try:
            known_shapes += shapes.step_shapes(content, name_of)
            optimized |= shapes.optimized_nodes(content, name_of, nodes)
        except UnreadableInput:
            continue  # as above
    return replace(found, shapes=shapes.agreed(known_shapes), optimized=optimized)


def with_programs(found: TracedLoop, content_of_file: Callable[[str], bytes]) -> TracedLoop:
    """Return traced steps with the programs of XLA that ran in them, and the shapes of these."""
    ran = found.programs or programs_of(found.captures, content_of_file)
    return replace(found, graph=_with_shapes(found.graph, ran), programs=ran)


def programs_of(
    captures: Sequence[Capture], content_of_file: Callable[[str], bytes]
) -> tuple[RanProgram, ...]:
    """Return the programs of XLA that ran in traced steps.

    Files are read until all programs are known. Unreadable files are skipped.
    """
    programs: dict[tuple[str, int], RanProgram] = {}
    for capture in captures:
        wanted = [key for key in capture.programs if key not in programs]
        if not wanted:
            continue
        try:
            read = ran_programs(content_of_file(capture.file), wanted)
        except (OSError, UnreadableInput):
            continue  # reported as a problem when it was decoded
        programs |= {(ran.module.name, ran.number): ran for ran in read}
    return tuple(programs[key] for key in sorted(programs))


def _with_shapes(graph: Graph, programs: Sequence[RanProgram]) -> Graph:
    """Return a graph whose instructions have the shapes of their results, where all agree."""
    shapes: dict[str, set[tuple[HloShape, ...]]] = {}
    for program in programs:
        for name, instruction in program.names.items():
            shapes.setdefault(name, set()).add(instruction.results())
    if not shapes:
        return graph
    nodes = (_with_results(node, shapes.get(node.name, ())) for node in graph.nodes)
    return replace(graph, nodes=tuple(nodes))


def _with_results(node: Node, shapes: Collection[tuple[HloShape, ...]]) -> Node:
    if node.output_shapes or len(shapes) != 1:
        return node
    (results,) = shapes
    dtypes = tuple(DTYPES.get(array.dtype, "") for array in results)
    is_known = all(dtypes) and not any(array.is_dynamic for array in results)
    if not results or not is_known:
        return node
    sizes = {at: array.sizes or (1,) for at, array in enumerate(results)}
    return replace(node, output_shapes=sizes, dtypes=dtypes)


def _with_passed(found: TracedLoop, graphs: Iterable[bytes]) -> TracedLoop:
    """Add the arguments of functions and loops that agree in all graphs that have them."""
    arguments: dict[str, Output] = {}
    loops: dict[str, LoopVariable] = {}
    insides: dict[str, frozenset[str]] = {}
    differ: set[str] = set()
    for content in graphs:
        try:
            calls = shapes.calls(content)
        except UnreadableInput:
            continue  # its nodes are not there either
        for name, inside in calls.insides().items():
            insides[name] = insides.get(name, frozenset()) | inside
        for name, output in calls.arguments().items():
            if arguments.setdefault(name, output) != output:
                differ.add(name)
        for variable in calls.loop_variables():
            if loops.setdefault(variable.argument, variable) != variable:
                differ.add(variable.argument)
    return replace(
        found,
        arguments={name: output for name, output in arguments.items() if name not in differ},
        loop_variables=tuple(each for name, each in loops.items() if name not in differ),
        insides=insides,
    )


def _contents(paths: Iterable[Path]) -> Iterator[bytes]:
    for path in paths:
        try:
            yield content_of(path)
        except OSError:
            continue  # many loops have no optimized graph


def join(
    loop: Loop,
    captures: Sequence[Capture],
    rows: Executions,
    nodes: dict[str, Node],
    callers: Mapping[str, tuple[Frame, ...]] = MappingProxyType({}),
    instructions: Mapping[str, Node] = MappingProxyType({}),
) -> TracedLoop:
    """Return traced steps with the nodes of their rows; missing ones are added to `nodes`.

    An added node is that of `instructions`, if it has one of the name; parameters, which do not
    run, are all added. One that runs a whole
    function gets the function's frames in `callers` as its code.
    """
    has_graph = bool(nodes)
    nodes.update((name, node) for name, node in instructions.items() if node.op in _NOT_RUN)
    ids = {name: at for at, name in enumerate(nodes)}
    node = _place_rows(rows, nodes, ids, callers, instructions)
    return TracedLoop(
        loop=loop,
        graph=Graph(tuple(nodes.values())),
        devices=_devices(rows, node, len(nodes)),
        captures=tuple(captures),
        executions=rows,
        node=node,
        has_graph=has_graph,
        has_memory=bool(rows.bytes.any() or rows.output_bytes.any()),
    )


def instructions_of(
    captures: Sequence[Capture], content_of_file: Callable[[str], bytes]
) -> dict[str, Node]:
    """Return the instructions of the compiled programs that ran, by the names of their rows.

    Files are read until all programs are known. Unreadable files are skipped.
    """
    found: dict[str, Node] = {}
    missing = {key for capture in captures for key in capture.programs}
    for capture in captures:
        wanted = [key for key in capture.programs if key in missing]
        if not wanted:
            continue
        try:
            nodes, known = ran_nodes(content_of_file(capture.file), wanted)
        except (OSError, UnreadableInput):
            continue  # reported as a problem when it was decoded
        found = {name: _without_agent(node) for name, node in nodes.items()} | found
        missing -= known
    return found


def _without_agent(node: Node) -> Node:
    trace = tuple(frame for frame in node.trace or () if _AGENT not in frame.file)
    return replace(node, trace=trace or None)


def _is_of_cell(node: Node) -> bool:
    """Return whether a cell of a notebook made a node."""
    return any(mark in frame.file for frame in node.trace or () for mark in _CELL_MARKS)


def process_folder(folder: RunFolder, profile: Profile, loop: Loop) -> ProcessFolder | None:
    process = profile.processes[loop.process]
    found = (each for each in folder.processes() if each.name == process.folder)
    return next((each for each in found if each.host == process.host), None)


def _recorded_nodes(
    folder: ProcessFolder | None, loop: Loop
) -> tuple[dict[str, Node], frozenset[str]]:
    """Return the nodes of a loop's graphs by name, and the names that several nodes share.

    Of nodes with one name the first is kept. If they differ only in shape, as in two traces of a
    function, the sizes that differ become unknown.
    """
    nodes: dict[str, Node] = {}
    shared: set[str] = set()
    if folder is None:
        return nodes, frozenset()
    for fingerprint in _fingerprints(folder, loop):
        try:
            found, functions = nodes_and_functions(content_of(folder.graph(fingerprint)))
        except (OSError, UnreadableInput):
            continue
        stacks = _stacks(folder, fingerprint, functions)
        for node in _with_variables_of(nodes, found, fingerprint):
            first = nodes.setdefault(node.name, replace(node, trace=stacks.get(node.name)))
            if not first.variables and node.variables:
                first = nodes[node.name] = replace(first, variables=node.variables)
            if first.output_shapes != node.output_shapes:
                nodes[node.name] = replace(first, output_shapes=shapes.of_either(first, node))
            if not are_alike(first, node):
                shared.add(node.name)
    _compare_traces(folder, loop, nodes, shared)
    return nodes, frozenset(shared)


def _with_variables_of(
    known: Mapping[str, Node], found: Sequence[Node], fingerprint: str
) -> Iterator[Node]:
    """Yield the nodes of a further graph, with the loop's variables under their known names.

    Two graphs may name the handle of one variable differently; the ops that use it have the same
    name.
    """
    if not known:
        yield from found
        return
    names: dict[str, str] = {}
    for node in found:
        first = known.get(node.name)
        if first is not None and len(first.variables) == len(node.variables):
            names |= zip(node.variables, first.variables, strict=True)
    for node in found:
        used = (names.get(name) or f"{fingerprint}:{name}" for name in node.variables)
        yield replace(node, variables=tuple(used)) if node.variables else node


def _compare_traces(
    folder: ProcessFolder, loop: Loop, nodes: dict[str, Node], shared: set[str]
) -> None:
    """Make shapes unknown that differ in other traces of a loop's functions; note what else does.

    A sample names one graph of a function, but any of its traces may have run.
    """
    named = [each for each in read_events(folder.events).events if each.kind == "graph"]
    chosen = set(_fingerprints(folder, loop))
    functions = {
        each.text("name")
        for each in named
        if each.text("graph") in chosen and each.text("origin") == "function"
    }
    for event in named:
        fingerprint = event.text("graph")
        if fingerprint is None or fingerprint in chosen or event.text("name") not in functions:
            continue
        try:
            others = graph_nodes(content_of(folder.graph(fingerprint)))
        except (OSError, UnreadableInput):
            continue  # compared where possible
        for other in others:
            first = nodes.get(other.name)
            if first is None:
                continue
            if first.output_shapes != other.output_shapes:
                nodes[other.name] = replace(first, output_shapes=shapes.of_either(first, other))
            if not are_alike(first, other):
                shared.add(other.name)


def _fingerprints(folder: ProcessFolder, loop: Loop) -> Iterable[str]:
    samples = (event for event in read_events(folder.events).events if event.kind == "sample")
    named = (event.text("graph") for event in samples if event.integer("work") == loop.index)
    return dict.fromkeys(each for each in named if each is not None)


def _stacks(
    folder: ProcessFolder, fingerprint: str, functions: frozenset[str]
) -> Mapping[str, tuple[Frame, ...]]:
    try:
        by_op = traces(content_of(folder.code_map(fingerprint)))
    except (OSError, UnreadableInput):
        return {}
    # An op of a function is listed below the function's name and runs under its own.
    inside = {}
    for name, stack in by_op.items():
        function, _, own = name.partition("/")
        if function.startswith("__") or function in functions:
            inside[own] = stack
    return {**inside, **by_op}


def _callers(folder: ProcessFolder, loop: Loop) -> dict[str, tuple[Frame, ...]]:
    """Return the frames that called each function of a loop: those that all its ops share."""
    chosen = set(_fingerprints(folder, loop))
    callers = {}
    for event in read_events(folder.events).events:
        fingerprint, function = event.text("graph"), event.text("name")
        if event.kind != "graph" or fingerprint not in chosen or not fingerprint or not function:
            continue
        stacks = list(_stacks(folder, fingerprint, frozenset()).values())
        if stacks:
            callers[function] = _shared(stacks)
    return callers


def _shared(stacks: Sequence[tuple[Frame, ...]]) -> tuple[Frame, ...]:
    """Return the frames that all stacks begin with."""
    levels = takewhile(lambda level: len(set(level)) == 1, zip(*stacks, strict=False))
    return tuple(level[0] for level in levels)


def _caller(name: str, callers: Mapping[str, tuple[Frame, ...]]) -> tuple[Frame, ...] | None:
    function = _CALLED.match(name)
    return callers.get(function["name"]) if function else None


def _place_rows(
    rows: Executions,
    nodes: dict[str, Node],
    ids: dict[str, int],
    callers: Mapping[str, tuple[Frame, ...]],
    instructions: Mapping[str, Node],
) -> Int32s:
    """Return the node of each row; a node that no graph has is added, named after what ran.

    Copies have one node per direction: no node of the graph moved the bytes.
    """
    is_copy = np.isin(rows.place, list(COPIES))
    op_types = np.full(len(rows.strings.values), -1, dtype=np.int32)
    op_types[rows.name[~is_copy]] = rows.op_type[~is_copy]
    numbers = np.zeros_like(op_types)
    for position in np.flatnonzero(op_types >= 0).tolist():
        name = known_name(rows.strings[position], nodes)
        if name not in nodes:
            op = rows.strings[op_types[position]]
            known = instructions.get(name)
            trace = _caller(name, callers)
            nodes[name] = known or Node(name=name, op=op, types=frozenset({op}), trace=trace)
            ids[name] = len(ids)
        numbers[position] = ids[name]
    found: Int32s = numbers[rows.name]
    for place, name in COPIES.items():
        at_place = rows.place == place
        if at_place.any():
            op = name.rpartition("/")[2]
            ids.setdefault(name, len(ids))
            nodes.setdefault(name, Node(name=name, op=op, types=frozenset({op})))
            found[at_place] = ids[name]
    return found


def _devices(rows: Executions, node: Int32s, count: int) -> tuple[str | None, ...]:
    """Return the devices of each node, joined by "|": where it ran, else where it was launched."""
    devices: list[str | None] = [None] * count
    for at_place in (rows.place != Place.HOST, rows.place == Place.HOST):
        before = tuple(devices)
        nodes, names = node[at_place], rows.device[at_place]
        # Device by device, of which there are few: sorting ten million pairs takes longer.
        for device in np.flatnonzero(np.bincount(names)).tolist():
            for at in np.flatnonzero(np.bincount(nodes[names == device])).tolist():
                if before[at] is None:
                    known = devices[at]
                    name = rows.strings[device]
                    devices[at] = name if known is None else f"{known}|{name}"
    return tuple(devices)


def captures_of(loop: Loop, profile: Profile) -> tuple[Capture, ...]:
    """Return the traced steps of a loop."""
    return tuple(
        capture
        for capture in profile.captures
        if capture.process == loop.process and capture.loop == loop.index
    )


# Our own lines between those of the job.
_AGENT = "/boot/tfprobe_agent/"


def traces(content: bytes) -> Mapping[str, tuple[Frame, ...]]:
    """Return the frames of each op, outermost first; ops of functions as `function/op`.

    The agent's own frames are left out.

    Raises UnreadableInput if the bytes are not a code map.
    """
    try:
        document = json.loads(content)
        files, functions = document["files"], document["functions"]
        frames = [
            Frame(str(files[file]), int(line), str(functions[function]))
            for file, line, function in document["frames"]
        ]
        stacks = [
            tuple(frames[at] for at in stack if _AGENT not in frames[at].file)
            for stack in document["stacks"]
        ]
        return {str(name): stacks[at] for name, at in document["ops"].items() if stacks[at]}
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as exc:
        raise UnreadableInput(f"not a code map ({type(exc).__name__}: {exc})") from exc
