"""Saving that takes a twentieth of the loop is told."""

from __future__ import annotations

from tests.support.subjects import WHOLE_NS, found, loop, process, timing
from tests.support.subjects import line as python_line
from tfprobe.analysis.breakdown.python_lines import GapPython
from tfprobe.analysis.system.application import ActivityInSteps


def _saving(total_ns: int) -> ActivityInSteps:
    return ActivityInSteps("save", "Model.save_weights", 10, total_ns)


def test_a_twentieth_of_the_loop_is_told() -> None:
    """With how often and how long, and all of it as the bound."""
    saving = process(activities=(_saving(WHOLE_NS // 20),))

    finding = found("checkpoint_stalls", processes=[saving])

    assert finding is not None
    assert (finding.gain.high_ns, finding.gain.of_ns) == (WHOLE_NS // 20, WHOLE_NS)
    assert "10 times" in finding.evidence[0].text


def test_less_is_not() -> None:
    """A checkpoint now and then is what one wants."""
    saving = process(activities=(_saving(WHOLE_NS // 20 - 1),))

    assert found("checkpoint_stalls", processes=[saving]) is None


def test_the_line_that_saves_is_told_where_it_was_seen() -> None:
    """Between the steps, or as the line that runs the ops of a Saver."""
    saving = process(activities=(_saving(WHOLE_NS // 10),))
    use = python_line("update_checkpoint_state", "saver.py:9", "python", 1.0, 1)
    saver = loop(
        process=saving,
        timing=timing(kind="session_run", name="save/control_dependency:0"),
        python=GapPython((use,), 2, "train.py:26"),
    )
    steps = loop(process=saving, save_source="train.py:7")

    findings = [found("checkpoint_stalls", *loops) for loops in ((steps,), (steps, saver))]

    assert [each.evidence[0].source for each in findings if each] == ["train.py:7", "train.py:26"]
