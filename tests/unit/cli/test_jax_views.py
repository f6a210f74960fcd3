"""Views of a bare XSpace of JAX: scopes, fusions and lines of Python, without any graph."""

from __future__ import annotations

import json

import pytest

from tests.support.captures import TraceEvent
from tests.support.golden import golden
from tests.unit.formats.test_hlo import HOST, capture, fusion_of_jax, ran
from tfprobe.cli.main import main


@pytest.fixture
def mixed(tmp_path, monkeypatch):
    """A file in which one fusion ran that is made of ops of two scopes."""
    monkeypatch.setenv("COLUMNS", "200")
    proto = fusion_of_jax(
        ("dot", "jit(step)/jvp(Net)/first/dot_general"), ("add", "jit(step)/jvp(Net)/second/add")
    )
    fusion = proto.hlo_module.computations[0].instructions[0]
    fusion.metadata.source_file, fusion.metadata.source_line = "train.py", 7
    path = tmp_path / "step.xplane.pb"
    path.write_bytes(capture({HOST: {"pool/1": [ran("fusion.1", 0, 50)]}}, proto))
    return path


def text_of(capsys, *words) -> str:
    assert main([*map(str, words)]) == 0
    return capsys.readouterr().out


def test_the_scope_view_says_what_is_only_in_the_scope_of_a_root(mixed, capsys) -> None:
    """The other scopes are in the document."""
    text = text_of(capsys, "scope", mixed)
    document = json.loads(text_of(capsys, "scope", mixed, "--json"))

    assert "A fusion is in the scope of its root. 50.0 µs are of fusions" in " ".join(text.split())
    (place,) = [each for each in document["places"] if "fused" in each]
    assert place["name"] == "Net/second/add"
    assert place["fused"] == ["Net/first/dot_general", "Net/second/add"]


def test_the_code_of_a_file_is_in_its_programs(mixed, capsys) -> None:
    """One line of each instruction, in programs of JAX before 0.10."""
    assert "train.py:7:" in text_of(capsys, "code", mixed)


def test_a_step_of_flax_by_layer_and_by_line(capsys, monkeypatch) -> None:
    """Forward and backward of a layer are together, and stacks lead to the call of the layer."""
    monkeypatch.setenv("COLUMNS", "200")
    path = golden("frameworks", "jax_cpu_flax_mlp_3steps.xplane.pb")

    layers = json.loads(text_of(capsys, "scope", path, "--by-layer", "--json"))["places"]
    code = text_of(capsys, "code", path)

    names = {place["name"] for place in layers}
    assert {f"Net/{name}/(backward)/dot_general" for name in ("second", "head")} < names
    assert "Net/first/dot_general" in names
    assert not any("jit(" in name or "jvp" in name for name in names)
    (line,) = [line for line in code.splitlines() if "job_flax.py:12:Net.__call__  " in line]
    assert "linear.py:287" in code[code.index(line) :].splitlines()[1]


def test_programs_without_executions_are_refused_with_the_reason(tmp_path, capsys) -> None:
    """JAX 0.4 records on a CPU that a program ran, and not what it did."""
    path = tmp_path / "old.xplane.pb"
    events = [TraceEvent("TfrtCpuExecutable::Execute", 0, 50)]
    proto = fusion_of_jax(("add", "jit(step)/jit(main)/add"))
    path.write_bytes(capture({HOST: {"python": events}}, proto))

    for view in ("op", "code", "breakdown"):
        assert main([view, str(path)]) != 0
        assert "JAX before 0.5 does not record on a CPU" in " ".join(
            capsys.readouterr().err.split()
        )
