"""Graphs and code maps: what the names in the captures mean. Written once per fingerprint, never per step.

Code that AutoGraph generated is mapped back to the lines of the program. TensorFlow maps the stacks of ops itself where
it calls generated code; the result of `tf.autograph.to_graph` is called by the program, and there, as in a profile
function, the generated file appears, which is deleted at exit. AutoGraph keeps the maps with its conversions; nothing
is imported to read them.
"""

import sys
import weakref
from hashlib import sha1
from json import dumps
from os.path import basename
from weakref import WeakKeyDictionary

from tfprobe_agent.core.guard import STATE, failed
from tfprobe_agent.unpatched import UNPATCHED

# A graph that keeps growing (a job that adds ops in its loop) is written again only when it has grown by half.
_GROWTH = 1.5
# Ops that call back into Python from inside a step.
_PYTHON_OPS = (b"PyFunc", b"EagerPyFunc", b"PyFuncStateless")
# A code map ends after this many ops.
_MAX_MAPPED_OPS = 30000
# Time to read the stack of one op: 20 us in TensorFlow 1.15, 120 us where stacks have 60 frames (2.21).
_MAPPED_OP_NS = 100 * 1000


class WrittenGraph:
    """A graph as last written: its fingerprint, the graph version at that time, and whether its steps call Python."""

    __slots__ = ("fingerprint", "runs_python", "version")

    def __init__(self, fingerprint, version, runs_python):
        self.fingerprint = fingerprint
        self.version = version
        self.runs_python = runs_python


class _Written:
    """What this process has written; created anew after a fork."""

    def __init__(self):
        self.sessions = weakref.WeakKeyDictionary()
        self.functions = weakref.WeakKeyDictionary()
        self.fingerprints = set()
        self.unmapped = []  # (fingerprint, weak reference to the graph): code maps to write when the budget allows


WRITTEN = _Written()


def reset():
    """Forget what the parent wrote, in a forked child."""
    WRITTEN.__init__()


def write_session_graph(recorder, graph):
    """Write a session's graph and code map if they are new; return its WrittenGraph."""
    known = WRITTEN.sessions.get(graph)
    version = graph.version
    if known is not None and version < known.version * _GROWTH:
        return known
    began_ns = UNPATCHED.monotonic_ns()
    data = graph.as_graph_def(add_shapes=True).SerializeToString()
    fingerprint = _fingerprint(data)
    known = WrittenGraph(fingerprint, version, any([name in data for name in _PYTHON_OPS]))
    WRITTEN.sessions[graph] = known
    _write(recorder, fingerprint, data, graph, "session", "", began_ns)
    return known


def write_functions(recorder, functions):
    """Write the graphs of a step's tf.functions if they are new; return the first one's fingerprint, or None."""
    first = None
    for function in functions:
        for graph in _graphs_of(function):
            if graph not in WRITTEN.functions:
                WRITTEN.functions[graph] = _write_function_graph(recorder, graph)
            first = first or WRITTEN.functions[graph]
    return first


def _write_function_graph(recorder, graph):
    began_ns = UNPATCHED.monotonic_ns()
    data = graph.as_graph_def(add_shapes=True).SerializeToString()
    fingerprint = _fingerprint(data)
    _write(recorder, fingerprint, data, graph, "function", graph.name, began_ns)
    return fingerprint


def _write(recorder, fingerprint, data, graph, origin, name, began_ns):
    if fingerprint in WRITTEN.fingerprints:
        return
    WRITTEN.fingerprints.add(fingerprint)
    recorder.process_dir.write_file(data, "graphs", fingerprint + ".graph.pb")
    nodes = len(graph.get_operations())
    graph_ns = UNPATCHED.monotonic_ns() - began_ns
    recorder.process_dir.event(
        "graph", graph=fingerprint, bytes=len(data), nodes=nodes, cost_ns=graph_ns, origin=origin, name=name
    )
    recorder.spent_once(graph_ns)
    WRITTEN.unmapped.append((fingerprint, weakref.ref(graph)))
    write_code_maps(recorder)


def write_code_maps(recorder, overdraft=1):
    """Write the code maps that the budget allows by now; called at each traced step, and with an overdraft at exit."""
    waiting, WRITTEN.unmapped = WRITTEN.unmapped, []
    for fingerprint, reference in waiting:
        graph = reference()
        if graph is None:
            continue
        if recorder.schedule.affords(_count_ops(graph) * _MAPPED_OP_NS, overdraft):
            _write_code_map(recorder, fingerprint, graph)
        else:
            WRITTEN.unmapped.append((fingerprint, reference))


def _write_code_map(recorder, fingerprint, graph):
    began_ns = UNPATCHED.monotonic_ns()
    code = _CodeMap()
    code.add_graph(graph, "")
    recorder.process_dir.write_file(code.to_json(), "code", fingerprint + ".json")
    code_ns = UNPATCHED.monotonic_ns() - began_ns
    recorder.process_dir.event("code", graph=fingerprint, ops=len(code.ops), cost_ns=code_ns)
    recorder.spent_once(code_ns)


def _count_ops(graph):
    inner = [getattr(function, "graph", None) for function in getattr(graph, "_functions", {}).values()]
    return len(graph.get_operations()) + sum(len(item.get_operations()) for item in inner if item is not None)


class _CodeMap:
    """Interned Python stacks of the ops of a graph and of the functions it calls."""

    def __init__(self):
        self.frames, self.stacks = {}, {}
        self.ops = {}
        self.truncated = False

    def add_graph(self, graph, prefix):
        """Add all ops of a graph under `prefix`, then those of its functions under their names."""
        for operation in graph.get_operations():
            if len(self.ops) >= _MAX_MAPPED_OPS:
                self.truncated = True
                return
            self.ops[prefix + operation.name] = self._stack(operation)
        for name, function in list(getattr(graph, "_functions", {}).items()):
            inner = getattr(function, "graph", None)
            if inner is not None and not prefix.startswith(name):
                self.add_graph(inner, _text(name) + "/")

    def _stack(self, operation):
        frames, indices = self.frames, []
        for frame in _raw_stack(operation):
            # TensorFlow's frames hash and compare by value, which is cheaper than reading them: 0.4 against 3.3 us.
            key = frame[:3] if isinstance(frame, tuple) else frame
            indices.append(frames.setdefault(key, len(frames)))
        return self.stacks.setdefault(tuple(indices), len(self.stacks))

    def to_json(self):
        """Return the document described in docs/run-directory.md; insertion order is index order."""
        files, functions, frames = {}, {}, {}
        numbers = []  # by frame in the order seen; None for a frame that is left out
        for place in sources_of([_place(frame) for frame in self.frames]):
            if place is not None:
                filename, line, function = place
                frame = files.setdefault(filename, len(files)), line, functions.setdefault(function, len(functions))
            numbers.append(None if place is None else frames.setdefault(frame, len(frames)))
        document = {
            "schema": "tfprobe.code/1",
            "files": list(files),
            "functions": list(functions),
            "frames": list(frames),
            "stacks": [[numbers[index] for index in stack if numbers[index] is not None] for stack in self.stacks],
            "ops": self.ops,
            "truncated": self.truncated,
        }
        return dumps(document, separators=(",", ":")).encode("utf-8")


def _place(frame):
    return frame if isinstance(frame, tuple) else (frame.filename, frame.lineno, frame.name)


def _raw_stack(operation):
    """Return the frames that created an op, outermost first; without TensorFlow's own if it can leave them out.

    A stack of TensorFlow 2.12 and later has 40 to 60 frames, of which 15 are not TensorFlow's.
    """
    stack = getattr(operation, "_traceback", None)
    stack = getattr(operation, "traceback", None) if stack is None else stack
    without_tensorflow = getattr(stack, "get_user_frames", None)
    return (stack if without_tensorflow is None else without_tensorflow()) or ()


def _graphs_of(function):
    """Return the traced graphs of a tf.function or ConcreteFunction in any TensorFlow. Traces nothing."""
    graph = getattr(function, "graph", None)
    if graph is not None:
        return [graph]
    # Once variables exist, TensorFlow 2 before 2.13 runs the second of its two traces; the first never runs again.
    names = ("_no_variable_creation_fn", "_stateless_fn", "_variable_creation_fn", "_stateful_fn")
    for holder in [function] + [getattr(function, name, None) for name in names]:
        concrete = _cached(getattr(holder, "_function_cache", None))
        graphs = [item.graph for item in concrete if getattr(item, "graph", None) is not None]
        if graphs:
            return graphs
    return []


def _cached(cache):
    for method in ("values", "all_values"):
        values = getattr(cache, method, None)
        if values is not None:
            return list(values())
    # TensorFlow 1.15: a named tuple (missed, primary, arg_relaxed_shapes, arg_relaxed)
    return list(getattr(cache, "primary", {}).values())


def note_devices(recorder, names):
    """Store this process's devices in process.json: those that TensorFlow 2 has set up, or `names` from a capture."""
    try:
        devices = _context_devices() or [_device(name) for name in names or ()]
        recorder.process_dir.devices = devices
        recorder.write_process()
        recorder.process_dir.event("devices", devices=devices)
    except Exception:
        failed("note_devices", tracing_only=STATE.tracing)


def _context_devices():
    module = sys.modules.get("tensorflow.python.eager.context")
    context = getattr(module, "_context", None)
    if context is None or not getattr(context, "_initialized", False):
        return []
    return [
        {"name": device.name, "type": device.device_type, "description": ""}
        for device in getattr(context, "_logical_devices", None) or ()
    ]


def _device(name):
    kind = name.rpartition("device:")[2].split(":")[0] or name
    return {"name": name, "type": kind, "description": ""}


def _fingerprint(data):
    return sha1(data).hexdigest()[:16]


def _text(name):
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name


# Beginnings of the names of generated files: by TensorFlow 2.2 and later, and before.
_PREFIXES = ("__autograph_generated_file", "tmp")
# Where AutoGraph keeps its conversions: in TensorFlow 2.3 and later, and before.
_CACHES = (("impl.api", ("_TRANSPILER", "_cache", "_cache")), ("impl.conversion", ("_CACHE", "_cache")))
_PACKAGES = ("tensorflow.python.autograph.", "tensorflow_core.python.autograph.")
# Generated code may be converted again.
_MOST_CONVERSIONS = 4


def sources_of(places):
    """Return (file, line, function) as written in the program for each place; None for a line that is not in it."""
    if not _may_be_generated(place[0] for place in places):
        return list(places)
    sources = _sources()
    files = {file for file, _ in sources}
    return [_source(place, sources, files) for place in places]


def name_sources(calls, functions):
    """Replace generated lines by lines of the program in calls and functions of gaps.jsonl, in place."""
    if not _may_be_generated(function[0] for function in functions):
        return
    sources = _sources()
    files = {file for file, _ in sources}
    generated = [function[0] if function[0] in files else None for function in functions]
    for call in calls:
        file = None if call[0] < 0 else generated[calls[call[0]][1]]
        if file is not None:
            source = _source((file, call[2], ""), sources, files)
            call[2] = 0 if source is None else source[1]
    for function, file in zip(functions, generated):
        if file is not None:
            function[:3] = _first_source(function, sources, files) or function[:3]


def _may_be_generated(files):
    return any([basename(file).startswith(_PREFIXES) for file in files])


def _sources():
    """Return the places that generated lines stand for, by file and line."""
    sources = {}
    for converted in _converted():
        for generated, origin in (getattr(converted, "source_map", None) or {}).items():
            place = origin.loc.filename, origin.loc.lineno, origin.function_name
            sources[(generated.filename, generated.lineno)] = place
    return sources


def _converted():
    for package in _PACKAGES:
        for module, names in _CACHES:
            holder = sys.modules.get(package + module)
            for name in names:
                holder = getattr(holder, name, None)
            if isinstance(holder, WeakKeyDictionary):
                # Lists, which are created at once: another thread may convert something meanwhile.
                for entry in list(holder.data.values()):
                    for converted in list(entry.values()):
                        yield converted


def _source(place, sources, files):
    for _ in range(_MOST_CONVERSIONS):
        if place[0] not in files:
            return place
        source = sources.get(place[:2])
        if source is None:
            return None
        place = source[0], source[1], source[2] or place[2]
    return None


def _first_source(function, sources, files):
    """Return the place of a generated function, whose own first lines may have no origin."""
    file, first, name = function[:3]
    lines = [line for known, line in sources if known == file and line >= first]
    return _source((file, min(lines), name), sources, files) if lines else None
