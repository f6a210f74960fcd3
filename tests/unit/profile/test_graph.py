"""Names under which ops run are found in their graph."""

from __future__ import annotations

import pytest

from tfprobe.profile.graph import Node, known_name

NODES = {
    node.name: node
    for node in (
        Node("lstm/while", "While"),
        Node("lstm/while/MatMul", "MatMul"),
        Node("lstm/while/call", "PartitionedCall"),
        Node("Relu", "Relu"),
    )
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("StatefulPartitionedCall/lstm/while/MatMul", "lstm/while/MatMul"),
        ("StatefulPartitionedCall/lstm/while/body/_24/lstm/while/MatMul", "lstm/while/MatMul"),
        ("while_15/body/_1/lstm/while/MatMul", "lstm/while/MatMul"),
        ("lstm/while/body/_24/lstm/while/call/Relu", "Relu"),
        ("cond/then/_3/other", "cond/then/_3/other"),
    ],
)
def test_an_op_of_a_loop_is_that_of_the_graph(name: str, expected: str) -> None:
    """TensorFlow runs the bodies of loops inline, in scopes that it numbers."""
    assert known_name(name, NODES) == expected
