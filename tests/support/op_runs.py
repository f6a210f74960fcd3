"""Runs whose ops have graphs, times and code, for tests of pages about costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.open_runs import ToldRun
from tests.support.profiles import Step, loop, profile
from tests.support.rundir import UNIX_NS
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Place, Row
from tfprobe.profile.graph import Frame, Graph, Node, TracedLoop
from tfprobe.profile.profile import Loop
from tfprobe.web.answers import answer
from tfprobe.web.params import Params

CPU, GPU = "/device:CPU:0", "/device:GPU:0"


@dataclass(frozen=True)
class Ran:
    """A node that ran once in each step, for `us` microseconds; with 0, it did not run."""

    name: str
    op: str = "MatMul"
    us: int = 10
    device: str = CPU
    inputs: tuple[str, ...] = ()
    trace: tuple[tuple[str, int], ...] = ()
    more: Any = None


class RunOfOps(ToldRun):
    """A run of one loop with two steps, each of which ran these nodes."""

    def __init__(self, *nodes: Ran, steps: int = 2, has_graph: bool = True) -> None:
        """Build the profile and the traced loop."""
        ran = [node for node in nodes if node.us]
        rows = [_row(node) for node in ran]
        found = profile([Step(rows) for _ in range(steps)], loops=[loop(sampled=steps)])
        super().__init__(found)
        ids = {node.name: index for index, node in enumerate(nodes)}
        self.traced = TracedLoop(
            loop=found.loops[0],
            graph=Graph(tuple(map(_node, nodes))),
            devices=tuple(node.device if node.us else None for node in nodes),
            captures=found.captures,
            executions=found.executions,
            node=np.array([ids[node.name] for node in ran] * steps, dtype=np.int32),
            has_graph=has_graph,
            has_memory=False,
        )

    def sampled(self, loop: Loop, *, with_shapes: bool = False) -> TracedLoop | Missing:
        """Return the traced loop."""
        return self.traced

    def ask(self, name: str, **arguments: object) -> dict[str, Any]:
        """Return a document."""
        return answer(self, name, Params({key: str(value) for key, value in arguments.items()}))


def _row(ran: Ran) -> Row:
    place = Place.ACCELERATOR if ran.device == GPU else Place.HOST
    return Row(ran.device, "1", ran.name, ran.op, place, UNIX_NS, ran.us * 1000)


def _node(ran: Ran) -> Node:
    producers: Sequence[str] = ran.inputs
    return Node(
        name=ran.name,
        op=ran.op,
        inputs={at: name.removeprefix("^") for at, name in enumerate(producers)},
        waits=frozenset(at for at, name in enumerate(producers) if name.startswith("^")),
        types=frozenset({ran.op}),
        trace=tuple(Frame(file, line, "f") for file, line in ran.trace) or None,
        **(ran.more or {}),
    )
