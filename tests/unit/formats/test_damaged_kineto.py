"""Damaged traces of PyTorch, and those of other tools, cost a sentence: no traceback, no hang."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.golden import golden
from tests.support.kineto import (
    annotation,
    call,
    called_from,
    copy,
    frame,
    kernel,
    link,
    memory,
    op,
    shaped,
    step,
    trace,
)
from tests.unit.formats.test_damaged_hlo import mutations
from tfprobe.analysis.breakdown.cycles import parts_by_loop
from tfprobe.analysis.ops.flops.count import count, coverage
from tfprobe.cli.main import main
from tfprobe.errors import UnreadableInput
from tfprobe.formats.kineto import documents, is_kineto, read
from tfprobe.profile.reader.file import whole_file

SEED = 20261124
BASE_NS = 1_795_205_058_000_000_000


def whole() -> bytes:
    """Return a trace with an event of each kind."""
    number = {"Sequence number": 3}
    told = {"Collective name": "allreduce", "In msg nelems": 10, "dtype": "Float"}
    convolved = shaped(op("aten::convolution", 42, 5), [1, 2, 8, 8], [4, 2, 3, 3])
    convolved["args"]["Concrete Inputs"] = ["", "", "", "[1]", "[0]", "[1]", "False", "[0]", "1"]
    return trace(
        [
            step(0, 0, 1000),
            annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 20),
            frame("train.py(12): step", 20, 900),
            frame("nn.Module: Net_0", 30, 100),
            shaped(op("aten::addmm", 40, 50, **number), [5], [3, 4], [4, 5]),
            convolved,
            call("cudaLaunchKernel", 50, 10, 2),
            kernel("ampere_sgemm_32x32", 100, 200, 2),
            op("autograd::engine::evaluate_function: AddmmBackward0", 150, 90, **number),
            shaped(op("torch::autograd::AccumulateGrad", 250, 9), [5]),
            copy("Memcpy HtoD (Pageable -> Device)", 20, 80, 1, bytes=4096),
            memory(60, 4096, 512, 512),
            op("record_param_comms", 500, 20, **told, **{"Process Group Name": "0", "Seq": 3}),
            annotation("Optimizer.step#Adam.step", 700, 100),
            *link(1, 40, 150),
        ],
        distributedInfo={"rank": 0, "world_size": 2},
        baseTimeNanoseconds=BASE_NS,
        **called_from((BASE_NS / 1000 + 30, "train.py", 14)),
    )


def looked_at(tmp_path, content: bytes) -> None:
    """Read a file in each way there is; only UnreadableInput may be raised."""
    path = tmp_path / "damaged.json"
    path.write_bytes(content)
    try:
        profile, found = whole_file(path)
    except UnreadableInput:
        return
    coverage(found, count(found), -1)
    for loop in parts_by_loop(profile):
        for each in loop.steps:
            assert sum(each.parts.values()) == each.cycle_ns


def test_no_damage_raises_or_hangs(tmp_path):
    """Bytes are cut, flipped, overwritten and doubled."""
    for damaged in mutations(whole(), 800):
        looked_at(tmp_path, damaged)


ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1e308, float("nan"), 2**63, -(2**70), 0.5, "", "x" * 50, "\x00"),
    *([], [[]], [[[1]]], [-1], [2**62, 2**62], ["a"], {}, {"a": []}),
)


def changed(document: Any, chance: random.Random) -> Any:
    """Return a document in which one value, wherever it is, is another."""
    if isinstance(document, dict) and document and chance.random() < 0.9:
        key = chance.choice(list(document))
        return {**document, key: changed(document[key], chance)}
    if isinstance(document, list) and document and chance.random() < 0.9:
        at = chance.randrange(len(document))
        return [*document[:at], changed(document[at], chance), *document[at + 1 :]]
    return chance.choice(ODD)


def test_no_odd_value_raises_or_hangs(tmp_path):
    """Each place may have a value of another type, or one that no machine has."""
    chance, document = random.Random(SEED), json.loads(whole())
    for _ in range(800):
        odd = document
        for _ in range(chance.choice((1, 1, 3))):
            odd = changed(odd, chance)
        looked_at(tmp_path, json.dumps(odd).encode())


def test_no_damage_to_a_recorded_trace_raises_or_hangs(tmp_path):
    """The same with a real one; few, as each takes a while."""
    recorded = golden("frameworks", "torch_cpu_mlp_3steps_all.json.gz").read_bytes()

    for damaged in mutations(gzip.decompress(recorded), 12):
        looked_at(tmp_path, damaged)
    for damaged in mutations(recorded, 20):
        looked_at(tmp_path, damaged)


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.99])
@pytest.mark.parametrize("view", ["op", "scope", "breakdown", "memory", "transfers", "ranks"])
def test_a_trace_that_was_cut_is_refused_in_one_paragraph(tmp_path, capsys, view, cut):
    """The process was killed while it wrote."""
    content = whole()
    path = tmp_path / "cut.json"
    path.write_bytes(content[: int(len(content) * cut)])

    assert main([view, str(path)]) != 0

    error = capsys.readouterr().err
    assert "not JSON" in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    "content",
    [
        b'{"traceEvents": [{"ph": "X", "cat": "toplevel", "name": "RunTask", "ts": 1, "dur": 2}]}',
        b'[{"ph": "B", "pid": 1, "tid": 1, "name": "f", "ts": 5}, {"ph": "E", "ts": 9}]',
        b'{"traceEvents": [{"ph": "X", "cat": "FEE", "name": "f", "ts": 1, "dur": 3}]}',
    ],
)
def test_traces_of_other_tools_are_not_pytorchs(tmp_path, capsys, content):
    """Chrome's, a tracer's of Python, viztracer's: none has an op."""
    path = tmp_path / "other.json"
    path.write_bytes(content)

    assert not is_kineto(content)
    assert main(["op", str(path)]) != 0
    assert "no box is an op" in capsys.readouterr().err


def events_of(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield shaped(op(f"aten::op_{number % 7}", 10.0 * number, 5.0), [number % 5, 3])


def test_a_large_file_is_read_in_parts(monkeypatch):
    """Whatever its layout, the result is that of the whole."""
    document = json.loads(trace([*events_of(400)], baseTimeNanoseconds=1_700_000_000_000_000_000))
    document["traceEvents"][7]["args"]["nested"] = [{"a": 1}, {"b": '}, {"'}]
    expected = read(json.dumps(document).encode())
    monkeypatch.setattr(documents, "_PART_BYTES", 2000)

    for layout in ({}, {"indent": 2}, {"separators": (",", ":")}):
        found = read(json.dumps(document, **layout).encode())

        assert list(found.rows) == list(expected.rows)


def test_a_large_file_that_was_cut_is_refused(monkeypatch):
    """Also if the first parts could be read."""
    content = trace([*events_of(400)])
    monkeypatch.setattr(documents, "_PART_BYTES", 2000)

    for cut in (2500, 20_000, len(content) - 3):
        with pytest.raises(UnreadableInput, match="not JSON"):
            read(content[:cut])


def test_numbers_that_are_none_do_not_spoil_the_rest():
    """libkineto has written NaN."""
    content = trace([op("aten::add", 1, 2, occupancy=float("nan"))])

    assert b"NaN" in content
    assert [row.name for row in read(content).rows] == ["aten::add"]
