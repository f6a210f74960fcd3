"""Breaks of graphs are told where steps of PyTorch are idle between their ops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.subjects import WHOLE_NS, found, loop, parts, process, timing
from tfprobe.analysis.steps.recompilations import BreakSite
from tfprobe.errors import Missing
from tfprobe.findings.finding import Finding

PRINTED = BreakSite(
    "f", "call_function BuiltinVariable(print)", "/home/ada/train.py:14", 3, None, is_skipped=False
)


def finding_of(*sites: BreakSite, idle: float = 0.2, **changes: Any) -> Finding | None:
    """Return what is said of these breaks in a loop of PyTorch that is idle so much."""
    broken = loop(
        process=process(breaks=sites),
        timing=timing(kind="optimizer_step", name="SGD"),
        parts=parts(idle=idle),
    )
    return found("graph_breaks", replace(broken, **changes))


def test_a_break_in_an_idle_loop_is_told() -> None:
    """With its line, and half of the idle time as the likely gain."""
    finding = finding_of(PRINTED)

    assert finding is not None
    assert (finding.gain.high_ns, finding.gain.low_ns) == (0.2 * WHOLE_NS, 0.1 * WHOLE_NS)
    assert finding.evidence[0].source == "/home/ada/train.py:14"
    assert "Print and log outside" in finding.action


@pytest.mark.parametrize(
    "changes",
    [
        {"idle": 0.04},
        {"timing": timing(kind="function", name="step")},
        {"is_main": False},
        {"parts": Missing("no step was traced")},
    ],
)
def test_one_that_costs_little_is_not(changes) -> None:
    """Nor one of another framework, nor in a loop that is not the longest."""
    assert finding_of(PRINTED, **changes) is None


def test_breaks_of_another_loop_are_not_told() -> None:
    """They delay its steps alone."""
    assert finding_of(replace(PRINTED, loop=3)) is None
    assert finding_of(replace(PRINTED, loop=0)) is not None


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("Tensor.item", "capture_scalar_outputs"),
        ("Data-dependent branching: if x.sum() > 0", "torch.where"),
        ("Dynamo recompile limit exceeded", "compiled too often"),
        ("Call to `torch._dynamo.graph_break()`", "asks for it"),
        ("something else", "fullgraph=True"),
    ],
)
def test_the_remedy_is_for_the_reason(reason, word) -> None:
    """Each kind once."""
    finding = finding_of(replace(PRINTED, reason=reason), replace(PRINTED, reason=reason))

    assert finding is not None
    assert finding.action.count(word) == 1
