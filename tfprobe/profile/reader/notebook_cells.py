"""Name the cells of a notebook in the code of traced steps, and leave the kernel's frames out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tfprobe.profile.graph import Frame, Node, TracedLoop
from tfprobe.runs.process_folder.cells import CellNames


def with_cell_names(found: TracedLoop, folder: Path) -> TracedLoop:
    """Return traced steps whose frames name cells by their numbers; `folder` is of the process."""
    names = CellNames(folder)
    nodes = tuple(_with_names(node, names) for node in found.graph.nodes)
    return replace(found, graph=replace(found.graph, nodes=nodes))


def _with_names(node: Node, names: CellNames) -> Node:
    trace = node.trace or ()
    cells = [at for at, frame in enumerate(trace) if names.shown(frame.file) != frame.file]
    return replace(node, trace=_renamed(trace[cells[0] :], names)) if cells else node


def _renamed(trace: Sequence[Frame], names: CellNames) -> tuple[Frame, ...]:
    return tuple(replace(frame, file=names.shown(frame.file)) for frame in trace)
