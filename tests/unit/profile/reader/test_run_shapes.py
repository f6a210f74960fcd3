"""Shapes that a graph does not know are taken from a run of it, where they fit."""

from __future__ import annotations

import pytest

from tests.support.captures import CPU
from tests.support.live_graphs import metadata_with_shapes
from tfprobe.profile.graph import Graph, Node
from tfprobe.profile.reader.shapes import filled, run_shapes


@pytest.mark.parametrize(
    ("known", "seen", "expected"),
    [
        pytest.param((), (4, 5), (4, 5), id="of unknown rank"),
        pytest.param((), (), (1,), id="a scalar is one number"),
        pytest.param((-1, 5), (4, 5), (4, 5), id="of unknown size"),
        pytest.param((-1, 5), (4, 6), (-1, 5), id="of another size"),
        pytest.param((-1, 5), (4,), (-1, 5), id="of another rank"),
        pytest.param((4, 5), (8, 5), (4, 5), id="known already"),
    ],
)
def test_a_shape_that_fits_is_taken(known, seen, expected) -> None:
    """The graph goes before the run."""
    graph = Graph((Node("a", "Relu", output_shapes={0: known}),))
    run = run_shapes(metadata_with_shapes({"a": [seen]}, device=CPU).SerializeToString())

    found = filled(graph, [run])

    assert found.nodes[0].output_shapes == {0: expected}


def test_a_node_with_another_number_of_outputs_stays() -> None:
    """As nodes of control flow do: of their outputs only one is there in a run."""
    graph = Graph((Node("switch", "Switch", output_shapes={0: (), 1: ()}),))

    found = filled(graph, [{"switch": ((3,),)}])

    assert found == graph


def test_the_first_run_that_fits_decides() -> None:
    """Later ones may have had other batches."""
    graph = Graph((Node("a", "Relu", output_shapes={0: (-1, 2)}),))

    found = filled(graph, [{}, {"a": ((7, 2),)}, {"a": ((8, 2),)}])

    assert found.nodes[0].output_shapes == {0: (7, 2)}
