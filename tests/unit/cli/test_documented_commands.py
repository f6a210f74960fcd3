"""Commands of the old tool's manuals, pasted with only the program's name changed, work."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest

from tests.support.captures import CPU, GPU, Node, run_metadata
from tfprobe.cli.main import main
from tfprobe.export.profile_proto import profile_proto
from tfprobe.formats.graph_profile import GraphProfileBuilder
from tfprobe.formats.schema import message_class

LINES = ("model_analyzer_test.py", "seq2seq_attention_model.py", "seq2seq_attention.py")
# Command -> what its answer must show.
COMMANDS = {
    "op -select micros,bytes,occurrence -order_by micros": "MatMul",
    "op -select micros,occurrence -order_by micros": "MatMul",
    "op -select micros,device -order_by micros": "device:gpu:0",
    "code -show_name_regexes seq2seq_attention.* -max_depth 10 -select micros -order_by micros":
        "seq2seq_attention.py:30:main",
    "code -start_name_regexes .*_add_seq2seq.* -show_name_regexes seq2seq_attention.* "
    "-max_depth 10 -select micros -order_by micros": "seq2seq_attention_model.py:20:_add_seq2seq",
    "code  -max_depth 5 -select micros -order_by micros -start_name_regexes .*_add_seq2seq.* "
    "-min_micros 100000": "_add_seq2seq",
    "code -max_depth 1000 -show_name_regexes .*model_analyzer.*py.* -select micros "
    "-account_type_regexes .* -order_by micros": "model_analyzer_test.py:10:train",
    "scope -max_depth 30 -select micros -min_micros 100000 -order_by micros": "seq2seq/MatMul",
    "scope -account_type_regexes VariableV2 -max_depth 4 -select params": "(3x4, 12/12 params)",
    "scope -min_float_ops 1 -select float_ops -account_displayed_op_only": "163.84k/163.84k flops",
    "advise": "ExpensiveOperationChecker",
}  # fmt: skip


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """A profile such as the manuals are about: attention, on a GPU, with code and FLOPs."""
    graph = message_class("tfprobe.graph.GraphDef")()
    weights = graph.node.add(name="seq2seq/weights", op="VariableV2")
    for size in (3, 4):
        weights.attr["shape"].shape.dim.add(size=size)
    graph.node.add(name="seq2seq/MatMul", op="MatMul", input=["seq2seq/weights"])
    log = message_class("tfprobe.tfprof.OpLogProto")()
    functions = ("train", "_add_seq2seq", "main")
    for at, text in enumerate((*LINES, *functions), 1):
        log.id_to_string[at] = text
    for name in ("seq2seq/weights", "seq2seq/MatMul"):
        entry = log.log_entries.add(name=name, float_ops=163_840 if "MatMul" in name else 0)
        for frame in (2, 0, 1):
            entry.code_def.traces.add(
                file_id=frame + 1, lineno=10 * (frame + 1), function_id=len(LINES) + frame + 1
            )
    builder = GraphProfileBuilder()
    builder.add_graph(graph.SerializeToString())
    builder.add_op_log(log.SerializeToString())
    host = [Node("seq2seq/MatMul", 0, 90), Node("seq2seq/weights", 0, 5, requested_bytes=64)]
    kernels = [Node("seq2seq/MatMul", 10, 250_000)]
    steps = run_metadata({GPU: host, CPU: [], f"{GPU}/stream:all": kernels})
    for step in (10, 11):
        builder.add_step(step, steps)
    path = tmp_path / "profile_xx"
    path.write_bytes(profile_proto(builder.profile()))
    return str(path)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_shell_answers(profile, capsys, monkeypatch, command: str) -> None:
    """Typed at the prompt, it shows what the manual says it shows, and complains of nothing."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{command}\n"))

    status = main(["tfprof", f"--profile_path={profile}"])

    said = capsys.readouterr()
    assert status == 0
    assert COMMANDS[command] in said.out
    assert said.err == ""


def test_a_timeline_of_each_step_is_written(profile, capsys, monkeypatch, tmp_path) -> None:
    """`graph -step -1 -max_depth 100000 -output timeline:outfile=<filename>`."""
    path = tmp_path / "timeline"
    command = f"graph -step -1 -max_depth 100000 -output timeline:outfile={path}"
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{command}\n"))

    status = main(["tfprof", f"--profile_path={profile}"])

    assert status == 0
    for step in (10, 11):
        events = json.loads(Path(f"{path}_{step}").read_text())["traceEvents"]
        assert "seq2seq/MatMul" in {event["name"] for event in events}


def test_a_pprof_file_is_written(profile, capsys, monkeypatch, tmp_path) -> None:
    """`code -select accelerator_micros ... -output pprof:outfile=<filename> -trim_name_regexes`."""
    path = tmp_path / "code.pprof"
    command = (
        f"code -select accelerator_micros -max_depth 100000 -output pprof:outfile={path}  "
        "-trim_name_regexes .*apply_op.*"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{command}\n"))

    status = main(["tfprof", f"--profile_path={profile}"])

    found = message_class("tfprobe.pprof.Profile")()
    found.ParseFromString(gzip.decompress(path.read_bytes()))
    assert status == 0
    assert [each.value[1] for each in found.sample if each.value[1]] == [250_000]
