"""Views of a trace of PyTorch's profiler, as a bare file."""

from __future__ import annotations

import json

import pytest

from tests.support import kineto
from tests.support.golden import golden
from tfprobe.cli.main import main

MLP = ("frameworks", "torch_cpu_mlp_3steps_all.json.gz")


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def document(capsys, *words):
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_products_and_parameters_are_those_of_the_program(capsys):
    """Its size is known by construction: three steps of 272,367,616 operations in products."""
    found = document(capsys, "op", golden(*MLP), "-max_depth", 100)

    by_op = {op["name"]: op["own"] for op in found["ops"]}
    assert by_op["aten::addmm"]["float_ops"] == 101_974_016
    assert 3 * (by_op["aten::addmm"]["float_ops"] + by_op["aten::mm"]["float_ops"]) == 817_102_848
    assert by_op["parameter"]["params"] == 399_370
    assert found["float_ops_coverage"]["unknown"] == []
    assert found["sampled_steps"] == [0, 1, 2]


def test_layers_have_their_gradients(capsys):
    """By layer, forward and backward are together."""
    places = document(capsys, "scope", golden(*MLP), "--by-layer")["places"]

    total = {place["name"]: place["total"] for place in places}
    assert total["Net_0/Linear_1"]["params"] == 262_656
    assert total["Net_0/Linear_1"]["float_ops"] == 3 * 2 * 128 * 512 * 512 + 512 * 127
    assert total["Net_0/Linear_1/(backward)"]["float_ops"] > 0
    assert total["Adam.step"]["time_ns"] > 0
    whole = sum(place["own"]["time_ns"] for place in places)
    assert whole == total["_TFProfRoot"]["time_ns"]


def test_code_has_the_functions_of_the_program(capsys):
    """Gradients are below the function that called their forward op."""
    assert main(["code", str(golden(*MLP))]) == 0

    text = capsys.readouterr().out
    assert "t_job.py:7:forward  " in text
    assert "t_job.py:7:forward (gradient)" in text


def test_the_graph_view_shows_which_op_called_which(capsys):
    """PyTorch has no graph."""
    places = document(capsys, "graph", golden(*MLP))["places"]

    names = [place["name"] for place in places]
    addmm = names.index("Net_0/Linear_1/aten::addmm")
    assert names[places[addmm]["parent"]] == "Net_0/Linear_1/aten::linear"


def test_a_trace_without_stacks_and_shapes_says_what_is_missing(tmp_path, capsys):
    """It still has its ops."""
    path = tmp_path / "bare.json"
    path.write_bytes(kineto.trace([kineto.op("aten::mm", 0, 10)]))

    found = document(capsys, "op", path)

    assert [op["name"] for op in found["ops"]] == ["aten::mm"]
    (unknown,) = found["float_ops_coverage"]["unknown"]
    assert unknown["reason"] == "the trace has no shapes of its arguments"
    assert found["ops"][0]["own"]["params"] is None
    assert main(["code", str(path)]) != 0
    assert "with_stack" in capsys.readouterr().err


def test_memory_is_by_op_over_time(capsys):
    """Who holds it has its module."""
    found = document(capsys, "memory", golden(*MLP))

    assert "Net_0/Linear_1" in json.dumps(found)


def test_without_allocations_memory_says_how_to_get_them(capsys):
    """Sizes of collectives are no memory."""
    path = golden("frameworks", "torch_ddp_gloo_rank0.json.gz")

    assert main(["memory", str(path)]) != 0
    assert "profile_memory=True" in capsys.readouterr().err


def test_a_step_of_each_rank_ends_with_its_update(capsys):
    """A job that marks no steps."""
    found = document(capsys, "op", golden("frameworks", "torch_ddp_gloo_rank0.json.gz"))

    assert found["sampled_steps"] == [0, 1]
