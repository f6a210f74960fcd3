"""Make OpLogProtos: what tfprof wants to know of a graph's ops that is not in its GraphDef."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tfprobe.analysis.ops.flops.engine import float_ops
from tfprobe.errors import UsageError
from tfprobe.formats.graph_profile import GraphProfileBuilder
from tfprobe.formats.schema import message_class, parse
from tfprobe.profile.reader.shapes import filled, run_shapes
from tfprobe.tfprof.live_graph import TRAINABLE_VARIABLES, LiveFrame, LiveGraph, live_graph, write

# Any: message classes are made at run time.
OpLogProto: Any = message_class("tfprobe.tfprof.OpLogProto")
FILE_NAME = "tfprof_log"
# What stands for a string that is not known; its number is 0.
NO_TEXT = "none"


def write_op_log(
    graph: Any,
    log_dir: str,
    op_log: Any = None,
    run_meta: Any = None,
    add_trace: bool = True,
) -> None:
    """Write `tfprof_log` into `log_dir`, for `tfprobe tfprof --op_log_path` and for tfprof.

    It holds float operations, trained variables and, with `add_trace`, the code of each op, and
    what `op_log` says. Shapes that the graph does not know are those of `run_meta`.

    Raises UsageError for a graph that is none, UnreadableInput where the file cannot be written.
    """
    content = merged_op_log(live_graph(graph), op_log, run_meta, add_trace=add_trace)
    write(log_dir, FILE_NAME, content.SerializeToString())


def merged_op_log(
    graph: LiveGraph | None, op_log: Any = None, run_meta: Any = None, *, add_trace: bool = True
) -> Any:
    """Return an OpLogProto of all that is known of a graph's ops; `op_log` comes first in it.

    Neither the graph nor `op_log` is changed.
    """
    log = _Log(own_op_log(op_log))
    if graph is None:
        return log.message
    builder = GraphProfileBuilder()
    builder.add_graph(graph.graph_def())
    shapes = run_shapes(serialized(run_meta, "run_meta")) if run_meta is not None else {}
    operations = float_ops(filled(builder.profile().graph, [shapes]))
    frames = dict(graph.frames()) if add_trace else {}
    trained = graph.trainable()
    for name in graph.names():
        if add_trace or operations.get(name) or name in trained:
            log.add(name, operations.get(name, 0), frames.get(name, ()), name in trained)
    return log.message


def own_op_log(op_log: Any) -> Any:
    """Return an OpLogProto, ours or TensorFlow's, as one of ours; None as an empty one."""
    if op_log is None:
        return OpLogProto()
    return parse(serialized(op_log, "op_log"), "tfprobe.tfprof.OpLogProto")


def serialized(message: Any, what: str) -> bytes:
    """Return the bytes of a message, whoever made its class; raises UsageError for what is none."""
    if not hasattr(message, "SerializeToString"):
        raise UsageError(f"{what} takes a protobuf message, not {type(message).__name__}.")
    return bytes(message.SerializeToString())


class _Log:
    """An OpLogProto that grows; of each op what was said first stays."""

    def __init__(self, given: Any) -> None:
        self.message = OpLogProto()
        self._numbers = {NO_TEXT: 0}
        self._entries: dict[str, Any] = {}
        self.message.id_to_string[0] = NO_TEXT
        for entry in given.log_entries:
            self._copy(entry, given.id_to_string)

    def add(
        self, name: str, operations: int, frames: Iterable[LiveFrame], is_trained: bool
    ) -> None:
        entry = self._entry(name)
        entry.float_ops = entry.float_ops or operations
        if is_trained and TRAINABLE_VARIABLES not in entry.types:
            entry.types.append(TRAINABLE_VARIABLES)
        if entry.code_def.traces:
            return
        for frame in frames:
            entry.code_def.traces.add(
                file_id=self._number(frame.file),
                lineno=frame.line,
                function_id=self._number(frame.function),
                line_id=self._number(frame.text),
                func_start_line=-1,
            )

    def _copy(self, given: Any, strings: Mapping[int, str]) -> None:
        entry = self._entry(given.name)
        entry.types.extend(given.types)
        entry.float_ops = given.float_ops
        del entry.code_def.traces[:]
        for trace in given.code_def.traces:
            copied = entry.code_def.traces.add()
            copied.CopyFrom(trace)
            for field in ("file_id", "function_id", "line_id"):
                setattr(copied, field, self._number(strings.get(getattr(trace, field), "")))

    def _entry(self, name: str) -> Any:
        if name not in self._entries:
            self._entries[name] = self.message.log_entries.add(name=name)
        return self._entries[name]

    def _number(self, text: str) -> int:
        text = text or NO_TEXT
        if text not in self._numbers:
            self._numbers[text] = len(self._numbers)
            self.message.id_to_string[self._numbers[text]] = text
        return self._numbers[text]
