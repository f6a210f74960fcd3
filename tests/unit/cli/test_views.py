"""`tfprobe op`, `scope`, `graph` and `code` answer from a recorded run."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.captures import CPU, GPU, Node, run_metadata
from tests.support.rundir import WrittenLoop, WrittenProcess, regular_steps, write_run
from tfprobe.cli.main import main
from tfprobe.formats.schema import message_class

GRAPH = "00f1ce"
CODE: dict[str, Any] = {
    "schema": "tfprobe.code/1",
    "files": ["/home/ada/train.py", "/home/ada/net.py"],
    "functions": ["main", "layer"],
    "frames": [[0, 10, 0], [1, 5, 1]],
    "stacks": [[0], [0, 1]],
    "ops": {"dense/weights": 1, "dense/product": 1, "loss": 0},
    "truncated": False,
}
DENSE_US, LOSS_US, KERNEL_US = 40, 10, 200


def graph_def() -> bytes:
    graph = message_class("tfprobe.graph.GraphDef")()
    weights = graph.node.add(name="dense/weights", op="VariableV2")
    for size in (3, 4):
        weights.attr["shape"].shape.dim.add(size=size)
    graph.node.add(name="dense/product", op="MatMul", input=["dense/weights"])
    graph.node.add(name="loss", op="Sum", input=["dense/product"])
    return bytes(graph.SerializeToString())


def step(slower_us: int = 0) -> bytes:
    """A step in which two nodes run on the host and one has a kernel."""
    host = [
        Node("dense/product", 0, DENSE_US + slower_us, requested_bytes=1000),
        Node("loss", 50, LOSS_US),
    ]
    return run_metadata({CPU: host, f"{GPU}/stream:all": [Node("dense/product", 0, KERNEL_US)]})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with one loop, two traced steps of it, its graph and its code map."""
    names = [f"{at:06}-session_run-0.run_metadata.pb" for at in (2, 7)]
    process = WrittenProcess(
        loops=[WrittenLoop(steps=regular_steps(30), sampled=[2, 7])],
        captures={names[0]: step(), names[1]: step(slower_us=20)},
        events=[
            {"event": "sample", "work": 0, "step": at, "capture": name, "graph": GRAPH}
            for at, name in zip((2, 7), names, strict=True)
        ],
        graphs={f"{GRAPH}.graph.pb": graph_def()},
        code={f"{GRAPH}.json": json.dumps(CODE).encode()},
    )
    return write_run(tmp_path / "runs" / "r1", [process])


def document(capsys, *words: str) -> Any:  # Any: a JSON document
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_ops_are_averaged_over_the_sampled_steps(run, capsys) -> None:
    """Kernel time and host time of a step, by type; the longest first."""
    found = document(capsys, "op", str(run))

    assert [(entry["name"], entry["own"]["time_ns"]) for entry in found["ops"]] == [
        ("MatMul", (DENSE_US + 10 + KERNEL_US) * 1000),
        ("Sum", LOSS_US * 1000),
        ("VariableV2", 0),
    ]
    assert found["sampled_steps"] == [2, 7]
    assert found["ops"][0]["own"]["accelerator_ns"] == KERNEL_US * 1000
    assert found["ops"][0]["own"]["bytes"] == 1000
    assert found["ops"][0]["own"]["peak_bytes"] is None


def test_one_step_can_be_asked_for(run, capsys) -> None:
    """`-step 7` is that step alone."""
    found = document(capsys, "op", str(run), "-step", "7")

    assert found["ops"][0]["own"]["cpu_ns"] == (DENSE_US + 20) * 1000


def test_scopes_have_what_is_inside_them(run, capsys) -> None:
    """A layer's total is that of its ops, and its parameters those of its variables."""
    found = document(capsys, "scope", str(run), "-max_depth", "3")

    places = {place["name"]: place for place in found["places"]}
    assert places["dense"]["total"]["time_ns"] == (DENSE_US + 10 + KERNEL_US) * 1000
    assert places["dense"]["own"]["time_ns"] == 0
    assert places["dense"]["total"]["params"] == 12
    assert found["places"][places["dense/product"]["parent"]]["name"] == "dense"


def test_the_graph_goes_from_consumers_to_producers(run, capsys) -> None:
    """The loss has the product below it, and that the weights."""
    places = document(capsys, "graph", str(run), "-min_occurrence", "0")["places"]

    above = {place["name"]: places[place["parent"]]["name"] for place in places[1:]}
    assert above == {"loss": "_TFProfRoot", "dense/product": "loss",
                     "dense/weights": "dense/product"}  # fmt: skip


def test_code_is_shown_by_line(run, capsys) -> None:
    """A line has the ops it made and those of the lines it calls."""
    places = {p["name"]: p for p in document(capsys, "code", str(run))["places"]}

    assert places["train.py:10:main"]["own"]["time_ns"] == LOSS_US * 1000
    assert places["net.py:5:layer"]["own"]["time_ns"] == (DENSE_US + 10 + KERNEL_US) * 1000
    assert (
        places["train.py:10:main"]["total"]["time_ns"]
        == places["_TFProfRoot"]["total"]["time_ns"]
    )  # fmt: skip


@pytest.mark.parametrize("view", ["op", "scope", "graph", "code"])
def test_text_is_for_people(run, capsys, view) -> None:
    """Units, shares, and nothing wider than the page."""
    select = "micros,bytes,peak_bytes,params,occurrence,device,op_types"
    status = main([view, str(run), "-select", select])

    text = capsys.readouterr().out
    assert status == 0
    assert ("250 µs" if view == "op" else "260 µs") in text
    assert "of 2 traced steps of 30" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["op", "{run}", "-step", "3"], 1, "2, 7"),
        (["op", "{run}", "--loop", "fit"], 1, "session_run"),
        (["op", "{run}", "-order_by", "depth"], 2, "depth"),
        (["op", "{run}", "{run}"], 2, "one run"),
        (["op", "{run}", "--rank", "first"], 2, "first"),
        (["op", "{run}", "-o"], 2, "-o"),
        (["op", "{run}", "-output", "timeline:outfile=x"], 1, "timeline"),
        (["scope", "{run}", "-output", "pprof:outfile=x"], 1, "tfprobe code"),
        (["op", "{run}", "-output", "none", "--json"], 2, "cannot be combined"),
        (["op", "{run}", "-output", "file:outfile={run}"], 2, "cannot be written"),
        (["code", "{run}", "-output", "pprof:outfile={run}"], 2, "cannot be written"),
        (["scope", "nowhere"], 3, "nowhere"),
        (["code", "{empty}"], 1, "no ops"),
    ],
)
def test_what_cannot_be_answered_is_said(run, tmp_path, capsys, words, status, says) -> None:
    """One paragraph, and the status of its kind."""
    empty = write_run(tmp_path / "runs" / "r0")
    words = [word.replace("{run}", str(run)).replace("{empty}", str(empty)) for word in words]

    ended = main(words)

    said = capsys.readouterr()
    assert (ended, says in said.err) == (status, True), said.err
    assert "bug in tfprobe" not in said.err


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{}", b'{"ops": {"a": 9}}', b"[1]"])
def test_a_broken_code_map_is_a_missing_one(run, capsys, content) -> None:
    """The other views go on; the code view says what it lacks."""
    for path in run.glob("*/*/code/*.json"):
        path.write_bytes(content)

    assert main(["scope", str(run)]) == 0
    assert main(["code", str(run)]) == 1
    assert "code map" in capsys.readouterr().err


def test_without_a_graph_names_still_make_scopes(run, capsys) -> None:
    """A lost graph costs edges and parameters, not times."""
    for path in run.glob("*/*/graphs/*"):
        path.write_bytes(b"\xff")

    places = document(capsys, "scope", str(run))["places"]

    assert places[0]["total"]["time_ns"] == (DENSE_US + 10 + KERNEL_US + LOSS_US) * 1000
    assert main(["graph", str(run)]) == 1


def test_an_account_pattern_counts_each_op_once(run, capsys) -> None:
    """Unlike in tfprof, two patterns that match do not double it, and a scope that is left out
    adds nothing of its own.
    """
    patterns = "MatMul,Mat.*"

    found = document(capsys, "op", str(run), "-account_type_regexes", patterns)

    assert [entry["own"]["runs"] for entry in found["ops"]] == [1]


def test_an_op_without_a_line_does_not_get_that_of_a_namesake(run, capsys) -> None:
    """`loss` is not made where some `other/loss` was."""
    code = {**CODE, "ops": {"other/loss": 1, "dense/product": 0}}
    for path in run.glob("*/*/code/*.json"):
        path.write_text(json.dumps(code))

    places = {p["name"]: p for p in document(capsys, "code", str(run))["places"]}

    assert places["_TFProfRoot"]["total"]["time_ns"] == (DENSE_US + 10 + KERNEL_US) * 1000


def test_an_op_of_a_function_is_shown_by_its_line(run, capsys) -> None:
    """The body of a loop is a function, below whose name the code map lists its ops."""
    graph = message_class("tfprobe.graph.GraphDef")()
    function = graph.library.function.add()
    function.signature.name = "while_body_39"
    for name, op in (("dense/product", "MatMul"), ("loss", "Sum")):
        function.node_def.add(name=name, op=op)
    code = {**CODE, "ops": {"while_body_39/dense/product": 1}}
    for path in run.glob("*/*/graphs/*.pb"):
        path.write_bytes(graph.SerializeToString())
    for path in run.glob("*/*/code/*.json"):
        path.write_text(json.dumps(code))

    places = {p["name"]: p for p in document(capsys, "code", str(run))["places"]}

    assert places["_TFProfRoot"]["total"]["time_ns"] == (DENSE_US + 10 + KERNEL_US) * 1000


def test_a_function_that_ran_as_one_op_comes_from_the_line_that_called_it(tmp_path, capsys) -> None:
    """A compiled function is one op, of which the graph of the function knows nothing."""
    name = "000002-function-0.run_metadata.pb"
    ran = Node("__inference_step_60", 0, DENSE_US)
    sample = {"event": "sample", "work": 0, "step": 2, "capture": name, "graph": GRAPH}
    graph = {"event": "graph", "graph": GRAPH, "origin": "function", "name": "step"}
    process = WrittenProcess(
        loops=[WrittenLoop(steps=regular_steps(30), sampled=[2])],
        captures={name: run_metadata({CPU: [ran]})},
        events=[graph, sample],
        graphs={f"{GRAPH}.graph.pb": graph_def()},
        code={f"{GRAPH}.json": json.dumps(CODE).encode()},
    )
    run = write_run(tmp_path / "runs" / "r1", [process])

    places = {p["name"]: p for p in document(capsys, "code", str(run))["places"]}

    caller = f"{CODE['files'][0].rpartition('/')[2]}:10:{CODE['functions'][0]}"
    assert places[caller]["own"]["time_ns"] == DENSE_US * 1000


def test_our_own_lines_are_not_shown(run, capsys) -> None:
    """The agent calls the job's step; the job's code did not."""
    code = {
        **CODE,
        "files": [*CODE["files"], "/home/ada/runs/r1/boot/tfprobe_agent/door.py"],
        "functions": [*CODE["functions"], "door"],
        "frames": [*CODE["frames"], [2, 65, 2]],
        "stacks": [[0, 2], [0, 2, 1]],
    }
    for path in run.glob("*/*/code/*.json"):
        path.write_text(json.dumps(code))

    names = [place["name"] for place in document(capsys, "code", str(run))["places"]]

    assert names == ["_TFProfRoot", "train.py:10:main", "net.py:5:layer"]


@pytest.mark.parametrize("view", ["op", "scope", "graph", "code"])
def test_the_text_can_go_to_a_file(run, tmp_path, capsys, view) -> None:
    """The same text as on a pipe, and one line that says where; or nothing at all."""
    path = tmp_path / "report.txt"
    main([view, str(run)])
    text = capsys.readouterr().out

    assert main([view, str(run), "-output", f"file:outfile={path}"]) == 0
    assert str(path) in capsys.readouterr().out
    assert path.read_text() == text
    assert main([view, str(run), "-output", "none"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("view", "steps"), [("graph", ["2", "7"]), ("scope", ["-1"]), ("code", ["-1"])]
)
def test_a_view_is_drawn_as_a_timeline(run, tmp_path, view, steps) -> None:
    """The graph view once for each traced step, as tfprof does."""
    path = tmp_path / "line"

    status = main([view, str(run), "-output", f"timeline:outfile={path}"])

    assert status == 0
    assert sorted(each.name for each in tmp_path.glob("line_*")) == [f"line_{s}" for s in steps]
    for each in tmp_path.glob("line_*"):
        names = {e["args"]["name"] for e in json.loads(each.read_text())["traceEvents"]
                 if e["ph"] == "X"}  # fmt: skip
        assert {"graph": "dense/product", "scope": "dense", "code": "net.py:5:layer"}[view] in names


def test_the_code_view_goes_to_pprof(run, tmp_path) -> None:
    """With every metric, whatever is selected."""
    path = tmp_path / "code.pb.gz"

    status = main(["code", str(run), "-select", "micros", "-output", f"pprof:outfile={path}"])

    message = message_class("tfprobe.pprof.Profile")()
    message.ParseFromString(gzip.decompress(path.read_bytes()))
    assert status == 0
    assert len(message.sample_type) > 2
    assert sum(s.value[0] for s in message.sample) == (DENSE_US + 10 + KERNEL_US + LOSS_US) * 1000


def test_what_never_ran_is_left_out_of_a_tree(run, capsys) -> None:
    """The graph of a session holds more than one step; what params are asked of is all of it."""
    ran = document(capsys, "scope", str(run))["places"]
    held = document(capsys, "scope", str(run), "-select", "params")["places"]

    assert {place["name"] for place in held} - {place["name"] for place in ran} == {"dense/weights"}


def test_a_function_of_tensorflow_2_has_the_parameters_of_its_layers(tmp_path, capsys) -> None:
    """They count where a layer reads them; what is fed holds none."""
    graph = message_class("tfprobe.graph.GraphDef")()
    fed = graph.node.add(name="images", op="Placeholder")
    for size in (64, 784):
        fed.attr["shape"].shape.dim.add(size=size)
    graph.node.add(name="1544", op="Placeholder").attr["shape"].shape.SetInParent()
    read = graph.node.add(name="dense/Read", op="ReadVariableOp", input=["1544"])
    shape = read.attr["_output_shapes"].list.shape.add()
    for size in (784, 10):
        shape.dim.add(size=size)
    run = one_step(
        tmp_path,
        run_metadata({CPU: [Node("dense/Read", 0, 5)]}),
        graphs={f"{GRAPH}.graph.pb": graph.SerializeToString()},
    )

    found = document(capsys, "scope", str(run), "-select", "params")

    held = {place["name"]: place["own"]["params"] for place in found["places"]}
    assert (held["dense/Read"], held["images"], held["1544"]) == (7840, 0, 0)


def test_parameters_are_unknown_without_a_graph(tmp_path, capsys) -> None:
    """Null, not 0."""
    run = one_step(tmp_path, run_metadata({CPU: [Node("a", 0, 5)]}))

    (entry,) = document(capsys, "op", str(run))["ops"]

    assert entry["own"]["params"] is None


def test_the_code_view_says_what_is_not_in_it(run, capsys) -> None:
    """Ops at no known line take time all the same."""
    code = next(run.glob("*/*/code/*.json"))
    code.write_text(json.dumps({**CODE, "ops": {"dense/product": 1}}))

    status = main(["code", str(run)])

    assert status == 0
    assert "Not in this view: 10.0 µs of ops" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-show_name_regexes", "("], "'(' is not a valid regular expression"),
        (["-hide_name_regexes", "[a"], "'[a' is not a valid regular expression"),
        (["-step", "-5"], "is not a step"),
    ],
)
def test_options_that_cannot_be_are_refused(run, capsys, words, says) -> None:
    """An empty table would look like an answer."""
    assert main(["op", str(run), *words]) == 2
    assert says in capsys.readouterr().err


def test_an_empty_answer_says_so(run, capsys) -> None:
    """So that nobody waits for the rest."""
    assert main(["scope", str(run), "-min_micros", "999999999"]) == 0
    assert "Nothing else matches the options." in capsys.readouterr().out


def test_a_file_has_names_in_full(run, capsys, tmp_path) -> None:
    """Nothing ends a line there."""
    name = "/".join(["a" * 30] * 5)
    wide = one_step(tmp_path, run_metadata({CPU: [Node(name, 0, 5)]}))

    main(["op", str(wide), "-output", f"file:outfile={tmp_path}/x"])

    assert name in (tmp_path / "x").read_text()


def test_what_could_not_be_read_is_told(run, capsys) -> None:
    """An average of fewer steps is another number."""
    next(run.glob("*/*/captures/000002*")).write_bytes(b"junk")

    assert main(["op", str(run)]) == 0
    assert "1 part of the recording could not be used" in capsys.readouterr().err


def test_copies_are_ops_of_their_own(tmp_path, capsys) -> None:
    """One for each direction, with the time and the bytes that no op of the graph has."""
    copies = [Node("a:MEMCPYHtoD", 0, 30, label="MEMCPYHtoD num_bytes: 4096")]
    capture = run_metadata({CPU: [Node("a", 0, 10)], "/device:GPU:0/memcpy": copies})
    run = one_step(tmp_path, capture)

    found = document(capsys, "op", str(run))

    (copy,) = [entry for entry in found["ops"] if entry["name"] == "CopyHostToDevice"]
    assert copy["own"]["accelerator_ns"] == 30_000
    assert copy["own"]["bytes"] == 4096


def test_an_op_of_two_devices_names_both(tmp_path, capsys) -> None:
    """Replicas run nodes of one name; each device is also a type to account by."""
    kernels = {f"/device:GPU:{at}/stream:all": [Node("a", 0, 10)] for at in (0, 1)}
    run = one_step(tmp_path, run_metadata({CPU: [Node("a", 0, 5)], **kernels}))

    status = main(["op", str(run), "-select", "device", "-account_type_regexes", ".*GPU:1.*"])

    assert status == 0
    assert "GPU:0/stream:all GPU:1/stream:all" in capsys.readouterr().out


def one_step(tmp_path: Path, capture: bytes, graphs: dict[str, bytes] | None = None) -> Path:
    """Write a run of one traced step."""
    name = "000002-session_run-0.run_metadata.pb"
    graph = GRAPH if graphs else None
    sample = {"event": "sample", "work": 0, "step": 2, "capture": name, "graph": graph}
    process = WrittenProcess(
        loops=[WrittenLoop(steps=regular_steps(30), sampled=[2])],
        captures={name: capture},
        events=[sample],
        graphs=graphs or {},
    )
    return write_run(tmp_path / "runs" / "one", [process])
