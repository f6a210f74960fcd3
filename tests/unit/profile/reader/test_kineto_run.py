"""Traced steps of PyTorch in a run: each is a trace that libkineto wrote, plain or compressed."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.support import kineto
from tests.support.golden import golden
from tests.support.rundir import MONO_NS, UNIX_NS, WrittenLoop, WrittenProcess, write_run
from tfprobe.cli.main import main
from tfprobe.profile.reader.run_reader import load
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine

ELSEWHERE = Machine("elsewhere", None)
NAME = "000002-fit-0.kineto.json"
STEP_NS = 100_000


def sample(name: str = NAME, *, start_ns: int = MONO_NS, length_ns: int = STEP_NS) -> dict:
    return {
        "event": "sample",
        "work": 0,
        "step": 2,
        "capture": name,
        "level": "full",
        "why": "budget",
        "start_ns": start_ns,
        "end_ns": start_ns + length_ns,
        "start_unix_ns": UNIX_NS + start_ns - MONO_NS,
        "plain_ns": length_ns,
    }


def step() -> bytes:
    """Return the trace of a step that begins at UNIX_NS."""
    events = [kineto.op("aten::linear", 10, 40), kineto.op("aten::addmm", 12, 30)]
    return kineto.trace(events, baseTimeNanoseconds=UNIX_NS)


def run_of(tmp_path, captures, events, **loop) -> RunFolder:
    written = WrittenLoop(kind="fit", name="net", steps=[(MONO_NS, MONO_NS + STEP_NS)] * 5, **loop)
    process = WrittenProcess(loops=[written], events=events, captures=captures)
    return RunFolder(write_run(tmp_path / "r1", [process]))


@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_of_a_run_is_a_traced_step(tmp_path, packed):
    """Its step is that of the event, and its times are unix times."""
    name = f"{NAME}.gz" if packed else NAME
    content = gzip.compress(step()) if packed else step()

    profile = load(run_of(tmp_path, {name: content}, [sample(name)]), ELSEWHERE)

    assert profile.problems == ()
    (capture,) = profile.captures
    assert (capture.step, capture.loop, capture.file) == (2, 0, name)
    assert (capture.start_ns, capture.duration_ns) == (UNIX_NS, STEP_NS)
    rows = list(profile.executions)
    assert [row.op_type for row in rows] == ["aten::linear", "aten::addmm"]
    assert [row.start_ns - UNIX_NS for row in rows] == [10_000, 12_000]


def test_captures_of_a_process_share_their_nodes(tmp_path):
    """An op that is alike in all steps is one node, and the modules are those of the event."""
    later = "000003-fit-0.kineto.json"
    event = {**sample(later, start_ns=MONO_NS + STEP_NS), "step": 3, "graph": "f00d"}
    folder = run_of(tmp_path, {NAME: step(), later: step()}, [sample(), event])

    profile = load(folder, ELSEWHERE)

    assert [capture.step for capture in profile.captures] == [2, 3]
    assert profile.nodes.keys() == {0}
    assert profile.nodes[0].keys() == {"aten::linear", "aten::addmm"}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\x1f\x8bxx", b'{"traceEvents": [{"ph": "X", "cat": "other"}]}', b"[]"]
)
def test_a_damaged_trace_is_skipped_and_named(tmp_path, content):
    """The others are read."""
    damaged = "000003-fit-0.kineto.json"
    folder = run_of(tmp_path, {NAME: step(), damaged: content}, [sample()])

    profile = load(folder, ELSEWHERE)

    assert [capture.file for capture in profile.captures] == [NAME]
    (problem,) = profile.problems
    assert damaged in problem.where
    assert "skipped" in problem.what


def test_views_of_a_run_show_a_recorded_step_of_pytorch(tmp_path, capsys, monkeypatch):
    """A step of a real recording: report, breakdown, ops and the timeline have it."""
    monkeypatch.setenv("COLUMNS", "200")
    packed = golden("frameworks", "torch_cpu_mlp_3steps_all.json.gz").read_bytes()
    document = json.loads(gzip.decompress(packed))
    events = document["traceEvents"]
    (mark,) = [event for event in events if event["name"] == "ProfilerStep#1"]
    document["traceEvents"] = [event for event in events if is_in(event, mark)]
    unix_ns = document["baseTimeNanoseconds"] + round(mark["ts"] * 1000)
    event = {**sample(length_ns=round(mark["dur"] * 1000)), "start_unix_ns": unix_ns}
    root = run_of(tmp_path, {NAME: json.dumps(document).encode()}, [event]).root

    for view, wanted in (("report", "aten::mm"), ("breakdown", "on the host"), ("op", "aten::mm")):
        assert main([view, str(root)]) == 0
        assert wanted in capsys.readouterr().out
    out = tmp_path / "t.json"
    assert main(["export", str(root), "--to", "chrome", "-f", str(out)]) == 0
    exported = json.loads(out.read_text())["traceEvents"]
    boxes = [event for event in exported if event["ph"] == "X"]
    assert sum(event["name"].endswith("aten::addmm") for event in boxes) == 3
    # As many as the trace itself has links in this step.
    assert sum(event.get("cat") == "gradient" for event in exported) == 2 * 10


def is_in(event, mark) -> bool:
    """Return whether an event is in a marked step, or names a thread or process."""
    return event["ph"] == "M" or 0 <= event["ts"] - mark["ts"] <= mark["dur"]


@pytest.mark.parametrize(("devices", "read"), [(["CPU"], 0), (["CPU", "GPU"], 3)])
def test_without_traces_only_those_of_accelerators_are_read(tmp_path, devices, read):
    """The newest three tell when devices have run the steps; a CPU is done when calls return."""
    names = [f"{number:06d}-fit-0.kineto.json" for number in range(5)]
    listed = [{"name": f"/device:{each}:0", "type": each} for each in devices]
    process = WrittenProcess(
        loops=[WrittenLoop(kind="fit", name="net", steps=[(MONO_NS, MONO_NS + STEP_NS)] * 5)],
        events=[sample(name) for name in names],
        captures=dict.fromkeys(names, step()),
        manifest={"devices": listed},
    )
    folder = RunFolder(write_run(tmp_path / "r1", [process]))
    seen: list[int] = []

    profile = load(
        folder, ELSEWHERE, with_captures=False, watch=lambda done, _all: seen.append(done)
    )

    assert len(seen) == read
    assert profile.captures == ()
    assert len(profile.executions) == 0
