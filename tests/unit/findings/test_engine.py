"""The engine orders findings, merges what several processes share, and adds nothing twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.subjects import MS, STEPS, WHOLE_NS, gpu_ops, loop, parts, process, timing, use
from tfprobe.analysis.breakdown.python_lines import GapPython
from tfprobe.analysis.steps.unexpected_steps import UnexpectedSteps
from tfprobe.errors import Missing
from tfprobe.findings import engine
from tfprobe.findings.finding import Evidence, Finding, Gain, Severity, Subject
from tfprobe.findings.rule import LoopAnalysis, RunAnalysis, TracedStep
from tfprobe.report.documents.findings_document import advice_document


def _judge(*loops: LoopAnalysis) -> engine.Advice:
    return engine.judge(RunAnalysis(tuple(each.process for each in loops), loops))


def _finding(part: str, high: int, low: int = 1) -> Finding:
    gain = Gain(low, high, 100)
    return Finding("t", Severity.INFO, (), "do", gain, part, "rule", Subject("h", 1))


def test_a_work_that_is_well_yields_nothing() -> None:
    """Nor does it say that something could not be checked for lack of an accelerator."""
    assert _judge(loop()).findings == ()


def test_the_most_important_comes_first() -> None:
    """By severity, then by what is likely to be won."""
    slow = loop(
        parts=parts(input_wait=0.5, callbacks=0.1), timing=timing(retraces=5, retrace_ns=MS * 50)
    )

    advice = _judge(slow)

    assert [each.rule for each in advice.findings] == ["input_bound", "callbacks_slow", "retracing"]
    assert engine.top(advice, 2) == advice.findings[:2]


@pytest.mark.parametrize(
    ("kind", "fixes"),
    [
        ("function", ("prefetch", "parallel_map", "cache")),
        ("fit", ("predict_direct", "prefetch", "parallel_map", "cache")),
        ("optimizer_step", ("dataloader_workers",)),
        ("jit", ()),
    ],
)
def test_a_finding_names_the_fixes_of_its_framework(kind, fixes) -> None:
    """Those that a trial can apply to this loop."""
    slow = loop(parts=parts(input_wait=0.5), timing=timing(kind=kind))
    slow = replace(slow, subject=replace(slow.subject, kind=kind))

    (first, *_) = _judge(slow).findings

    assert (first.rule, first.fixes) == ("input_bound", fixes)


def test_gains_of_one_part_are_not_added() -> None:
    """Two rules about the same wait win it once."""
    found = engine.together([_finding("input", 30), _finding("input", 20), _finding("compile", 10)])

    assert found == Gain(2, 40, 100)


def test_gains_together_are_no_more_than_everything() -> None:
    """Even where parts were measured at different steps."""
    assert engine.together([_finding("a", 70), _finding("b", 60)]) == Gain(2, 100, 100)


def test_gains_of_ranks_are_not_added() -> None:
    """Ranks work at the same time: the one with most to win counts."""
    mine = replace(_finding("a", 30), subject=Subject("h", 1, 0, "fit", "model"))
    other = replace(_finding("a", 40), subject=Subject("h", 2, 1, "fit", "model"))

    assert engine.together([mine, other]) == Gain(1, 40, 100)


def test_what_recording_took_is_not_of_the_loop() -> None:
    """It is a share of the whole process, and would make shares of the loop look small."""
    recording = replace(_finding("recording", 500), gain=Gain(500, 500, 5000))

    assert engine.together([_finding("input", 80), recording]) == Gain(1, 80, 100)
    assert isinstance(engine.together([recording]), Missing)


def test_a_longer_loop_beside_it_makes_no_gain_smaller() -> None:
    """Together is never less than the bound of one finding."""
    longer = replace(_finding("b", 10), gain=Gain(1, 10, 1000))

    assert engine.together([_finding("a", 80), longer]) == Gain(1, 80, 100)


def test_a_gain_that_nobody_expects_is_not_in_the_sum() -> None:
    """That an op takes most of a step does not say that it can be done without."""
    assert isinstance(engine.together([_finding("compute", 90, low=0)]), Missing)


def test_together_is_no_less_than_the_bound_of_any_finding() -> None:
    """Who reads "together at most 40 %" above "at most 90 %" trusts neither."""
    found = engine.together([_finding("input", 40), _finding("compute", 90, low=0)])

    assert found == Gain(1, 90, 100)


def test_the_same_in_several_ranks_is_told_once() -> None:
    """With the ranks that share it."""
    shares = parts(input_wait=0.5)
    loops = []
    for rank in range(3):
        subject = Subject("node7", 100 + rank, rank, "fit", "model")
        loops.append(loop(subject=subject, process=process(subject=subject), parts=shares))

    findings = [each for each in _judge(*loops).findings if each.rule == "input_bound"]

    assert len(findings) == 1
    assert findings[0].evidence[-1] == Evidence("the same in rank 1, rank 2")


def test_what_cannot_be_checked_says_why() -> None:
    """A rule is unchecked where no work has what it needs."""
    unknown = loop(ops=Missing("no step was traced"))

    reasons = {each.rule: each.reason for each in _judge(unknown).unchecked}

    assert reasons["expensive_ops"] == "no step was traced"
    assert "expensive_ops" not in {each.rule for each in _judge(unknown, loop()).unchecked}


def test_a_document_has_fractions_and_times() -> None:
    """Gains are fractions of the loop, and µs."""
    advice = _judge(loop(parts=parts(input_wait=0.5)))

    found = advice_document(advice)["findings"][0]

    assert (found["rule"], found["severity"]) == ("input_bound", "critical")
    assert found["gain"] == {
        "low_ratio": 0.58,
        "high_ratio": 0.725,
        "low_ns": round(0.58 * WHOLE_NS),
        "high_ns": round(0.725 * WHOLE_NS),
        "of_ns": WHOLE_NS,
    }
    assert found["evidence"][1] == {
        "text": "a traced step",
        "step": 23,
        "capture": "node7/4711-1/captures/000023-fit-0.xplane.pb",
    }


def test_a_gain_that_is_none_says_why() -> None:
    """Its numbers are null, never 0."""
    unused = loop(process=process(has_accelerator=True))

    found = advice_document(_judge(unused))["findings"][0]

    assert (found["rule"], found["gain"]["high_ratio"]) == ("accelerator_idle", None)
    assert "unknown" in found["gain"]["missing"]


@pytest.mark.parametrize(
    ("low", "severity"), [(0.15, "critical"), (0.03, "warning"), (0.029, "info")]
)
def test_severity_follows_the_likely_gain(low: float, severity: str) -> None:
    """What may be won at best says little about how much it matters."""
    advice = _judge(loop(parts=parts(input_wait=2 * low)))

    assert advice.findings[0].severity.name.lower() == severity


def test_gains_are_no_more_than_the_loop() -> None:
    """Whatever a traced step took."""
    dear = loop(ops=gpu_ops(device=(use("MatMul", 80.0),)))

    gains = [each.gain for each in _judge(dear).findings if isinstance(each.gain, Gain)]

    assert gains
    assert all(gain.high_ns <= gain.of_ns for gain in gains)


def test_what_wins_little_of_the_whole_process_is_no_alarm() -> None:
    """Half of a loop of 1 s is nothing to a process of a minute that does other things."""
    shares = parts(input_wait=0.5)
    short = loop(parts=shares, process=process(wall_ns=60 * WHOLE_NS))
    long = loop(parts=shares)

    severities = [_judge(each).findings[0].severity for each in (short, long)]

    assert severities == [Severity.INFO, Severity.CRITICAL]


def test_what_rests_on_one_traced_step_says_so_and_is_no_certainty() -> None:
    """It may have been an unusual one. What all steps tell is as sure as ever."""
    once = (TracedStep(23, "captures/000023-fit-0.xplane.pb"),)
    shares = parts(input_wait=0.5)
    slow = UnexpectedSteps((40,), WHOLE_NS // 2, 100, every=20, is_own=True)

    by_rule = {
        each.rule: each
        for each in _judge(loop(parts=shares, outliers=slow, traced_steps=once)).findings
    }

    assert by_rule["input_bound"].severity is Severity.WARNING
    assert by_rule["input_bound"].evidence[-1].text == "from one traced step"
    assert by_rule["step_outliers"].severity is Severity.CRITICAL


@pytest.mark.parametrize(
    ("kind", "step_ms", "severity"),
    [
        ("optimizer_step", 80, Severity.INFO),
        ("optimizer_step", 20, Severity.CRITICAL),
        ("function", 80, Severity.CRITICAL),
    ],
)
def test_what_short_steps_show_is_a_note_where_others_are_long(kind, step_ms, severity) -> None:
    """If a step has all that the program does: traced ones took 8 ms here."""
    long = timing(kind=kind, regular_step_ns=STEPS * step_ms * MS)

    advice = _judge(loop(parts=parts(input_wait=0.5), timing=long))
    (found,) = (each for each in advice.findings if each.rule == "input_bound")

    assert found.severity is severity
    texts = [each.text for each in found.evidence]
    assert (
        "the traced steps took 8 ms, and do not show what is in longer ones; mean step" in texts
    ) == (severity is Severity.INFO)


def test_the_rest_of_a_loop_of_the_host_goes_faster_with_a_part() -> None:
    """By nine tenths of the part's share. With an accelerator it is another's time."""
    waits = parts(input_wait=0.4)

    (on_host,) = _judge(loop(parts=waits)).findings
    beside_a_gpu = _judge(loop(parts=waits, process=process(has_accelerator=True))).findings[0]

    assert isinstance(on_host.gain, Gain)
    assert isinstance(beside_a_gpu.gain, Gain)
    assert round(on_host.gain.high_ratio, 6) == 0.616
    assert beside_a_gpu.gain.high_ratio == 0.4


def test_what_is_likely_is_what_such_advice_won_where_it_was_followed() -> None:
    """Four fifths of the bound for input; beside accelerators nothing was measured.

    How much a finding matters follows the rule's own share.
    """
    waits = parts(input_wait=0.1)

    (on_host,) = _judge(loop(parts=waits)).findings
    beside_a_gpu = _judge(loop(parts=waits, process=process(has_accelerator=True))).findings[0]

    assert isinstance(on_host.gain, Gain)
    assert isinstance(beside_a_gpu.gain, Gain)
    assert on_host.gain.low_ns == round(0.8 * on_host.gain.high_ns)
    assert beside_a_gpu.gain.low_ratio == 0.05
    assert on_host.severity is Severity.WARNING


def test_a_finding_without_a_line_says_where_its_steps_run() -> None:
    """By the gaps that were watched, else by the traced steps."""
    waits = parts(input_wait=0.4)
    watched = GapPython((), 3, "net.py:7", "train.py:20")

    (sampled,) = _judge(loop(parts=waits, called_at="train.py:19")).findings
    (both,) = _judge(loop(parts=waits, called_at="train.py:19", python=watched)).findings

    assert sampled.evidence[-1] == Evidence("its steps run at", source="train.py:19")
    assert both.evidence[-1] == Evidence("its steps run at", source="train.py:20")


def test_loops_that_cannot_be_divided_are_not_judged() -> None:
    """What is slow about them is not known, so nothing is suggested, and the reason is given."""
    slow = loop(
        parts=parts(input_wait=0.5),
        timing=timing(kind="jit", retraces=5, retrace_ns=MS, undivided=Missing("it only queues")),
    )

    advice = _judge(slow)

    assert [each for each in advice.findings if each.subject == slow.subject] == []
    assert advice.unchecked[:1] == (engine.Unchecked(engine.QUEUED_LOOPS, "it only queues"),)


def test_loops_whose_steps_are_waited_for_are_judged() -> None:
    """Their steps are over before the program goes on, as those of a Session."""
    slow = loop(parts=parts(input_wait=0.5), timing=timing(kind="jit"))

    assert [each.subject for each in _judge(slow).findings] == [slow.subject]
