"""What devices and tasks send each other."""

from __future__ import annotations

from tests.support.profiles import Step, profile
from tests.unit.analysis.distributed.test_collectives import _sampled
from tests.unit.analysis.transfers.test_transfers import row
from tfprobe.analysis.core.source_lines import Origins
from tfprobe.analysis.transfers.sends import Sends, sends
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.graph import Node

CPU, PS = "/job:worker/task:0/cpu:0", "/job:ps/task:0/cpu:0"


def test_a_received_tensor_says_where_it_is_from() -> None:
    """TensorFlow writes size and both ends of a tensor from another task."""
    rows = [
        row("RecvTensor", at, 10, Place.HOST, detail=f"[1.5KB] w from {PS} to {CPU}")
        for at in (0, 50)
    ]

    found = sends(profile([Step(rows)]), Origins(()))

    assert found == (Sends("RecvTensor", PS, CPU, 2, 2, 3072, 20_000),)


def test_the_graph_tells_the_ends_of_a_send() -> None:
    """The nodes that partition a graph name the devices they stand between."""
    made = profile([Step([row("x/_3", 0, 10, Place.HOST, op_type="_Recv")])])
    node = Node(
        "x/_3",
        "_Recv",
        output_shapes={0: (25,)},
        dtypes=("DT_FLOAT",),
        attributes={"send_device": PS, "recv_device": CPU},
    )

    found = sends(made, Origins([_sampled(made, node)]))

    assert found == (Sends("_Recv", PS, CPU, 1, 1, 100, 10_000),)


def test_where_nothing_is_sent_the_reason_is_told() -> None:
    """A job on one device has nothing to send."""
    made = profile([Step([row("MatMul", 0, 10, Place.HOST)])])

    assert isinstance(sends(made, Origins(())), Missing)
