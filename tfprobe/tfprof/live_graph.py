"""Read a tf.Graph of the running program. Nothing else here calls TensorFlow's graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfprobe.errors import UnreadableInput, UsageError

# The type tfprof gives to the ops of variables that are trained.
TRAINABLE_VARIABLES = "_trainable_variables"


@dataclass(frozen=True, slots=True)
class LiveFrame:
    """A line of Python that made an op, with its text; "" and -1 where that is not known."""

    file: str
    line: int
    function: str
    text: str


class LiveGraph:
    """A tf.Graph that is read on request. It is never changed.

    Any throughout: the graph is TensorFlow's, and TensorFlow is not imported here.
    """

    def __init__(self, graph: Any) -> None:
        """Keep the graph; raises UsageError for what is none."""
        for name in ("as_graph_def", "get_operations", "get_collection"):
            if not hasattr(graph, name):
                raise UsageError(
                    f"A graph is needed, and {type(graph).__name__} is none.",
                    hint="Give a tf.Graph, such as session.graph or concrete_function.graph.",
                )
        self._graph = graph

    def is_same(self, other: LiveGraph) -> bool:
        """Say whether both are the same tf.Graph."""
        return self._graph is other._graph

    @property
    def version(self) -> int | None:
        """A number that grows with every op, None where the graph has none."""
        version: int | None = getattr(self._graph, "version", None)
        return version

    def graph_def(self) -> bytes:
        """Return the GraphDef with the shapes of outputs."""
        return bytes(self._graph.as_graph_def(add_shapes=True).SerializeToString())

    def names(self) -> list[str]:
        """Return the names of the ops, in the order they were made."""
        return [op.name for op in self._graph.get_operations()]

    def trainable(self) -> frozenset[str]:
        """Return the names of the ops of variables that are trained."""
        variables = self._graph.get_collection("trainable_variables")
        return frozenset(variable.op.name for variable in variables if hasattr(variable, "op"))

    def frames(self, *, but: frozenset[str] = frozenset()) -> Iterator[tuple[str, list[LiveFrame]]]:
        """Give the name of each op and the code that made it, but for the ops that are known."""
        for op in self._graph.get_operations():
            if op.name not in but:
                yield op.name, [_frame(*each[:4]) for each in getattr(op, "traceback", None) or ()]


def live_graph(graph: Any = None) -> LiveGraph | None:
    """Return the graph, or TensorFlow's default one; None if there is none as it runs eagerly."""
    if graph is not None:
        return LiveGraph(graph)
    import tensorflow as tf

    return None if tf.executing_eagerly() else LiveGraph(tf.compat.v1.get_default_graph())


def _frame(file: str | None, line: int | None, function: str | None, text: str | None) -> LiveFrame:
    return LiveFrame(file or "", line or -1, function or "", text or "")


def write(folder: str, name: str, content: bytes) -> None:
    """Write a file into a folder, which is made if need be.

    Raises UnreadableInput where that cannot be.
    """
    try:
        if "://" in folder:
            _write_remote(folder, name, content)
        else:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / name).write_bytes(content)
    except OSError as exc:
        why = exc.strerror or exc
        raise UnreadableInput(f"{name} cannot be written into {folder}: {why}.") from exc


def _write_remote(folder: str, name: str, content: bytes) -> None:
    import tensorflow as tf

    try:
        tf.io.gfile.makedirs(folder)
        with tf.io.gfile.GFile(f"{folder}/{name}", "wb") as file:
            file.write(content)
    except tf.errors.OpError as exc:
        raise OSError(str(exc)) from exc
