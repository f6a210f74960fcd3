"""Time what a step more costs us: `our_add_step.py builder|read|profiler GRAPH STEP COUNT`.

Prints the seconds of each step; with "read" instead of "builder" those that reading each step takes
later, when a report is asked for.
"""

import json
import sys
import time
from pathlib import Path

from tfprobe.formats.graph_profile import GraphProfileBuilder
from tfprobe.formats.schema import message_class
from tfprobe.tfprof import Profiler


def main():
    kind, graph_path, step_path, count = sys.argv[1:]
    graph, step = Path(graph_path).read_bytes(), Path(step_path).read_bytes()
    add = adder(kind, graph)
    if kind == "profiler":
        message = message_class("tfprobe.step_stats.RunMetadata")()
        message.ParseFromString(step)
        step = message
    seconds = []
    for number in range(int(count)):
        started = time.perf_counter()
        add(number, step)
        if kind == "read":
            started = time.perf_counter()
            add.__self__.add_op_log(b"")
        seconds.append(time.perf_counter() - started)
    print(json.dumps(seconds))


def adder(kind, graph):
    if kind in ("builder", "read"):
        builder = GraphProfileBuilder()
        builder.add_graph(graph)
        return builder.add_step
    return Profiler(Graph(graph)).add_step


class Graph:
    """Stands for TensorFlow's graph, of which the profiler asks these; a step adds no ops to it."""

    version = 1

    def __init__(self, content):
        self._content = content

    def as_graph_def(self, add_shapes=False):  # noqa: ARG002 - as TensorFlow has it
        message = message_class("tfprobe.graph.GraphDef")()
        message.ParseFromString(self._content)
        return message

    def get_operations(self):
        return []

    def get_collection(self, _name):
        return []


main()
