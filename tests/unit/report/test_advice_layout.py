"""Advice fits its page, says how much it matters without colour, and where to look."""

from __future__ import annotations

import pytest

from tests.support.subjects import MS, found, loop, machine, parts, process
from tfprobe.analysis.input.step_input import StepInput
from tfprobe.errors import Missing
from tfprobe.findings.engine import Advice, judge
from tfprobe.findings.finding import Evidence, Finding, Gain, Severity, Subject
from tfprobe.findings.rule import RunAnalysis
from tfprobe.report.text.findings import finding_lines, render_advice, render_advice_markdown


def _advice() -> Advice:
    slow = StepInput(
        "Map", 3.0 * MS, "Iterator::Root::Prefetch::BatchV2::Map", ("Map",), "", "d.py:9"
    )
    waiting = loop(parts=parts(input_wait=0.4, callbacks=0.06), input=slow, ops=Missing("none"))
    return judge(RunAnalysis((waiting.process,), (waiting,)))


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    """At any width, with long names."""
    text = render_advice(_advice(), "python " + "train/" * 40, width=width, colour=False)

    assert max(map(len, text.splitlines())) <= width
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


def test_a_finding_says_what_how_much_where_and_what_to_do() -> None:
    """In a few lines, the word of its severity first."""
    text = render_advice(_advice(), "python train.py", width=100, colour=False)

    assert "\ncritical  Steps wait for their input  input_bound\n" in text
    assert "fit model · at most 61.6 % (616 ms of 1.00 s), likely 49.3 %" in text
    flowing = " ".join(text.split())
    assert "Map per step: 3.00 ms (Iterator::Root::Prefetch::BatchV2::Map, d.py:9)" in flowing
    assert "step 23: 000023-fit-0.xplane.pb · tfprobe input" in text
    assert "→ Make the input faster than the step" in text


def test_colour_only_where_it_is_asked_for() -> None:
    """A pipe gets none."""
    plain = render_advice(_advice(), "x", width=80, colour=False)
    coloured = render_advice(_advice(), "x", width=80, colour=True)

    assert "\x1b[" not in plain
    assert "\x1b[" in coloured


def test_nothing_found_is_said() -> None:
    """And what could not be looked at."""
    text = render_advice(
        judge(RunAnalysis((), (loop(ops=Missing("no")),))), "x", width=80, colour=False
    )

    assert "No optimization was found" in text
    assert "could not be checked" in text


def test_a_gain_that_is_none_says_why() -> None:
    """Memory costs no time until it is full."""
    full = process(machine=machine(peak_bytes=9, limit_bytes=10))
    finding = found("memory_full", processes=[full])

    assert finding is not None
    assert finding_lines(finding)[1] == (
        "process 4711 · memory use costs no time until memory is full"
    )


def test_names_from_a_recording_steer_no_terminal() -> None:
    """A loop may be called anything."""
    evil = Finding(
        title="\x1b[2Jgone",
        severity=Severity.INFO,
        evidence=(Evidence("a\nb", source="\x1b]0;x\x07"),),
        action="do",
        gain=Gain(0, 1, 2),
        subject=Subject(kind="fit", name="\x1b[31m"),
    )
    advice = Advice((evil,), (), Missing("none"))

    text = render_advice(advice, "\x1b[2J", width=80, colour=False)

    assert "\x1b" not in text
    assert "\x1b" not in render_advice_markdown(advice, "t")


def test_markdown_has_a_heading_for_each_finding() -> None:
    """With its evidence as a list, the capture and the command as code."""
    text = render_advice_markdown(_advice(), "python train.py")

    assert "# Advice on `python train.py`" in text
    assert "\n## critical: Steps wait for their input\n" in text
    assert "- step 23: `node7/4711-1/captures/000023-fit-0.xplane.pb`" in text
    assert "- `tfprobe input`" in text
