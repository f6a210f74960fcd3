"""Make the profile of a small graph in memory, for tests of its views and exports."""

from __future__ import annotations

from tfprobe.profile.graph import Frame, Graph, Node
from tfprobe.profile.records import GraphProfile, MemoryUse, Record, Span

MAIN = Frame("/home/ada/train.py", 10, "main", 8)
LAYER = Frame("/home/ada/net.py", 5, "layer", 4)
DEVICE = "/job:localhost/replica:0/task:0/device:cpu:0"
STEP = 3
# Node -> what it takes in the one step, in µs. `loss` is made at a line that calls others.
MICROS = {"dense/product": 40, "loss": 10, "fused": 5, "gradients/dense/product_grad/MatMul": 20}


def graph_profile() -> GraphProfile:
    """Return four ops: two of one line's code, one of nobody's, and a gradient."""
    nodes = (
        Node("dense/product", "MatMul", types=frozenset({"MatMul"}), trace=(MAIN, LAYER)),
        Node("loss", "Sum", inputs={0: "dense/product"}, types=frozenset({"Sum"}), trace=(MAIN,)),
        Node("fused", "_Fused", types=frozenset({"_Fused"})),
        Node(
            "gradients/dense/product_grad/MatMul",
            "MatMul",
            types=frozenset({"MatMul"}),
            trace=(MAIN,),
        ),
    )
    return GraphProfile(
        graph=Graph(nodes),
        steps=(STEP,),
        devices=(DEVICE,) * len(nodes),
        records=tuple({STEP: _record(1000 * at, node.name)} for at, node in enumerate(nodes, 1)),
        covered=len(nodes),
        lacks_stream=False,
    )


def _record(start_us: int, name: str) -> Record:
    end_us = start_us + MICROS[name]
    return Record(
        run_count=1,
        start_us=start_us,
        end_us=end_us,
        accelerator={},
        cpu={DEVICE: (Span(start_us, MICROS[name]),)},
        memory=(MemoryUse(end_us, 100, 100, 0, 64, 0, 0, on_host=True),),
        allocations=(),
    )
