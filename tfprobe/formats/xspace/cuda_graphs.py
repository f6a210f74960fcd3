"""Find the op of a kernel that ran in a CUDA graph, as command buffers of XLA are on a GPU.

Such a kernel carries the numbers of the graph and of its node, and no instruction: nothing was
annotated when the graph was launched. The call of the driver that added the node has the annotation
of its instruction, if it was traced, and each copy of a graph an event "CudaGraphNodeMap" that says
which node was copied to which. The form is that of openxla/xla,
xla/backends/profiler/gpu/cupti_tracer.cc; no recording of a real GPU has been read yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tfprobe.formats.xspace.events import EventPlane
from tfprobe.formats.xspace.plane import DRIVER, HOST, number

NODE_MAP = "CudaGraphNodeMap"
_GRAPH, _NODE = "cuda_graph_id", "cuda_graph_node_id"
_COPIED_GRAPH, _COPIED_NODE = "cuda_graph_orig_id", "cuda_graph_orig_node_id"
_WHOLE_GRAPH = "cuda_graph_exec_id"
# The stats that say in which graph a kernel ran.
OF_GRAPH = (_GRAPH, _NODE, _WHOLE_GRAPH)
_INSTRUCTION = "hlo_op"
# Nobody copies copies of copies deeper.
_MOST_COPIES = 16
# A graph and one of its nodes.
_Place = tuple[int, int]


class CudaGraphs:
    """What the calls of the driver say of the nodes of graphs."""

    def __init__(self, planes: Iterable[EventPlane]) -> None:
        """Read them from the planes of a capture."""
        self._added: dict[_Place, Mapping[str, Any]] = {}
        self._copied: dict[_Place, _Place] = {}
        for plane in planes:
            if plane.name in (HOST, DRIVER):
                self._read(plane)

    def annotation(self, stats: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the stats of what added the node of a kernel with these stats; None if unknown."""
        place = _place(stats, _GRAPH, _NODE)
        for _ in range(_MOST_COPIES):
            if place in self._added:
                return self._added[place]
            if place not in self._copied:
                return None
            place = self._copied[place]
        return None

    def _read(self, plane: EventPlane) -> None:
        ids = plane.stat_ids(_NODE)
        for line in plane.lines if ids else ():
            events = np.flatnonzero(line.have(ids, line.every()))
            for at, stats in zip(line.ids[events].tolist(), line.stats(events), strict=True):
                place = _place(stats, _GRAPH, _NODE)
                if _INSTRUCTION in stats:
                    self._added.setdefault(place, stats)
                elif plane.event_name(at).startswith(NODE_MAP):
                    self._copied.setdefault(place, _place(stats, _COPIED_GRAPH, _COPIED_NODE))


def is_in_graph(stats: Mapping[str, Any]) -> bool:
    """Return whether a kernel with these stats ran in a CUDA graph, or is a graph as a whole."""
    return any(number(stats.get(name)) for name in OF_GRAPH)


def _place(stats: Mapping[str, Any], graph: str, node: str) -> _Place:
    return number(stats.get(graph)), number(stats.get(node))
