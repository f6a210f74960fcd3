"""`tfprobe tfprof` answers from the files the old program read; bad ones get one paragraph."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest

from tests.support.captures import CPU, Node, run_metadata
from tests.support.golden import golden
from tfprobe.cli.main import main
from tfprobe.formats.schema import message_class


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A graph of two ops in a scope, as text and binary, and a step of them."""
    graph = message_class("tfprobe.graph.GraphDef")()
    graph.node.add(name="layer/weights", op="VariableV2")
    graph.node.add(name="layer/product", op="MatMul", input=["layer/weights"])
    (tmp_path / "graph.pb").write_bytes(graph.SerializeToString())
    (tmp_path / "graph.pbtxt").write_text(str(graph))
    step = {CPU: [Node("layer/weights", duration_us=5), Node("layer/product", 10, 70)]}
    (tmp_path / "step.pb").write_bytes(run_metadata(step))
    return {path.name: str(path) for path in tmp_path.iterdir()}


@pytest.mark.parametrize("graph", ["graph.pb", "graph.pbtxt"])
def test_a_graph_is_read_as_text_or_binary(files, capsys, graph) -> None:
    """Both give the same report."""
    status = main(
        ["tfprof", f"--graph_path={files[graph]}", "--run_meta_path", files["step.pb"], "scope"]
    )

    assert status == 0
    assert "  layer (0us/75us, 0us/0us, 0us/75us)\n" in capsys.readouterr().out


def test_the_shell_reads_commands_from_a_pipe(files, capsys, monkeypatch) -> None:
    """`set` holds from then on, options of a view for that view only, an error ends nothing."""
    commands = "set -max_depth 2\nscope\nscope -max_depth 3\nnonsense\nop -order_by joy\nscope\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(commands))

    status = main(
        ["tfprof", f"--graph_path={files['graph.pb']}", f"--run_meta_path={files['step.pb']}"]
    )

    said = capsys.readouterr()
    assert status == 0
    assert said.out.count("_TFProfRoot") == 3
    assert said.out.count("layer/product") == 1
    assert "nonsense" in said.err
    assert "joy" in said.err


def test_a_timeline_is_a_file_that_chrome_opens(files, capsys, tmp_path) -> None:
    """One file for each step of the graph view."""
    path = tmp_path / "line"

    status = main(
        ["tfprof", f"--graph_path={files['graph.pb']}", f"--run_meta_path={files['step.pb']}",
         "graph", f"-output=timeline:outfile={path}"]
    )  # fmt: skip

    assert status == 0
    events = json.loads((tmp_path / "line_0").read_text())["traceEvents"]
    boxes = {event["name"]: event["dur"] for event in events if event["ph"] == "X"}
    assert boxes == {"layer/weights": 5, "layer/product": 70}
    assert f"{path}_0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["scope"], 2, "--profile_path"),
        (["--profile_path=nowhere.pb", "scope"], 3, "nowhere.pb"),
        (["--profile_path={foreign}", "scope"], 3, "ProfileProto"),
        (["--profile_path={empty}", "scope"], 3, "without nodes"),
        (["--graph_path={foreign}", "scope"], 3, "GraphDef"),
        (["--graph_path={graph.pb}", "--run_meta_path={foreign}", "op"], 3, "RunMetadata"),
        (["--graph_path={graph.pb}", "-step", "7", "scope"], 1, "no step 7"),
        (["--graph_path={graph.pb}", "code"], 1, "which code"),
        (["--graph_path={graph.pb}", "shape"], 2, "shape"),
        (["--graph_path={graph.pb}", "scope", "op"], 2, "Only one view"),
        (["--graph_path={graph.pb}", "--op_log_path"], 2, "--op_log_path"),
        (["--graph_path={graph.pb}", "-output=file:outfile=/no/such/dir/x", "scope"], 2, "written"),
    ],
)
def test_bad_input_gets_one_paragraph(files, capsys, tmp_path, words, status, says) -> None:
    """What was tried, on what; never a traceback."""
    (tmp_path / "foreign").write_bytes(b"\xff\xfe not a protobuf \x00")
    (tmp_path / "empty").write_bytes(b"")
    places = {**files, "foreign": str(tmp_path / "foreign"), "empty": str(tmp_path / "empty")}
    for name, place in places.items():
        words = [word.replace(f"{{{name}}}", place) for word in words]

    ended = main(["tfprof", *words])

    said = capsys.readouterr()
    assert (ended, says in said.err) == (status, True), said.err
    assert "bug in tfprobe" not in said.err
    assert said.out == ""


def test_advise_is_a_view_and_a_command(files, capsys, monkeypatch) -> None:
    """`tfprobe tfprof ... advise` and the shell's `advise` print the same."""
    words = ["tfprof", f"--graph_path={files['graph.pb']}", f"--run_meta_path={files['step.pb']}"]
    monkeypatch.setattr("sys.stdin", io.StringIO("advise\n"))

    statuses = main([*words, "advise"]), main(words)

    said = capsys.readouterr()
    assert statuses == (0, 0)
    half = said.out[: len(said.out) // 2]
    assert said.out == half * 2
    assert "top 1 operation type: MatMul, cpu: 70us, accelerator: 0us, total: 70us (93.33%)" in half
    assert said.err.count("no code") == 2


def test_a_regex_that_is_none_matches_nothing_and_is_told(files, capsys) -> None:
    """RE2 says what is wrong with it."""
    status = main(["tfprof", f"--graph_path={files['graph.pb']}", "-show_name_regexes=(", "scope"])

    said = capsys.readouterr()
    assert status == 0
    assert "layer" not in said.out
    assert "missing )" in said.err


def test_a_chain_of_ten_thousand_ops_is_no_deeper_than_it_may_be(tmp_path, capsys) -> None:
    """The graph view walks it without a stack of its own language."""
    graph = message_class("tfprobe.graph.GraphDef")()
    for at in range(10_000):
        graph.node.add(name=f"op{at}", op="Identity", input=[f"op{at - 1}"] if at else [])
    (tmp_path / "graph.pb").write_bytes(graph.SerializeToString())

    status = main(
        ["tfprof", f"--graph_path={tmp_path / 'graph.pb'}", "-max_depth", "20000",
         "-select", "occurrence", "graph"]
    )  # fmt: skip

    assert status == 0
    assert "op0 (0/0|1/1)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["scope", "-output", "pprof:outfile={out}"], 1, "code view"),
        (["code", "-output", "pprof"], 2, "pprof:outfile"),
        (["code", "-output", "pprof:outfile={out}", "-select", "micros,bytes"], 2, "one metric"),
        (["code", "-output", "pprof:outfile={out}", "-select", "occurrence"], 2, "occurrence"),
        (["code", "-output", "pprof:outfile={out}"], 1, "which code"),
        (["scope", "-output", "file:outfile={out}/no/such"], 2, "cannot be written"),
    ],
)
def test_a_pprof_file_that_cannot_be_is_said(files, capsys, tmp_path, words, status, says) -> None:
    """Another view, no file, not one metric, no traces: no file, one paragraph."""
    out = tmp_path / "out.pb.gz"
    filled = [word.replace("{out}", str(out)) for word in words]

    ended = main(
        ["tfprof", f"--graph_path={files['graph.pb']}", f"--run_meta_path={files['step.pb']}",
         *filled]
    )  # fmt: skip

    said = capsys.readouterr().err
    assert (ended, says in said, out.exists()) == (status, True, False), said


def test_a_pprof_file_is_written(files, capsys, tmp_path) -> None:
    """gzip'ed, and the answer says where."""
    log = message_class("tfprobe.tfprof.OpLogProto")()
    log.id_to_string[1], log.id_to_string[2] = "train.py", "main"
    code = log.log_entries.add(name="layer/product").code_def
    code.traces.add(file_id=1, function_id=2, lineno=7)
    (tmp_path / "log").write_bytes(log.SerializeToString())
    out = tmp_path / "out.pb.gz"

    status = main(
        ["tfprof", f"--graph_path={files['graph.pb']}", f"--run_meta_path={files['step.pb']}",
         f"--op_log_path={tmp_path / 'log'}", "code", f"--output=pprof:outfile={out}"]
    )  # fmt: skip

    assert status == 0
    assert str(out) in capsys.readouterr().out
    message = message_class("tfprobe.pprof.Profile")()
    message.ParseFromString(gzip.decompress(out.read_bytes()))
    assert [list(sample.value) for sample in message.sample] == [[1, 70]]


def test_values_of_a_checkpoint_stand_below_their_nodes(capsys) -> None:
    """`-select tensor_value` with the files of tfprof's own tests."""
    folder = golden("tfprof_testdata")
    files = [f"--graph_path={folder}/graph.pbtxt", f"--checkpoint_path={folder}/ckpt"]

    status = main(["tfprof", *files, "scope", "-select", "tensor_value", "-max_depth", "3"])

    assert status == 0
    assert "ScalarW ()\n[0.00 ],\n" in capsys.readouterr().out
