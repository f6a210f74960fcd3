"""A run that recorded nothing says which link was missing."""

from __future__ import annotations

from tests.support.profiles import loop, process, profile
from tfprobe.analysis.core.no_data_reasons import explain
from tfprobe.errors import Missing
from tfprobe.profile.profile import Ending, Interpreter, Raised, Run


def test_interpreters_without_a_framework_are_listed():
    """Python started and never imported a framework: which Pythons they were."""
    seen = (Interpreter("node7", 5, "3.11.7", "/usr/bin/python3"),)

    (text,) = explain(profile(processes=[], interpreters=seen))

    assert "none imported a framework that is recorded" in text
    assert "TensorFlow, PyTorch or JAX" in text
    assert "/usr/bin/python3" in text


def test_a_process_without_steps_is_named():
    """TensorFlow was imported but nothing that counts as a step ran."""
    (text,) = explain(profile())

    assert "4711" in text
    assert "ran no step" in text


def test_a_process_that_failed_before_its_first_step_says_so():
    """That it failed is the reason, before anything that tfprobe might not know."""
    ending = Ending(1, exception=Raised("ImportError", "no module", "train.py", 7))

    (text,) = explain(profile(processes=[process(state="failed", ending=ending)]))

    assert "imported TensorFlow 2.21.0 and ended by ImportError before it ran a step" in text


def test_what_cannot_be_read_is_not_taken_for_no_steps():
    """A damaged steps.bin says nothing of what the job did."""
    (text,) = explain(profile(processes=[process(hooks=Missing("steps.bin is damaged."))]))

    assert ("cannot be read: steps.bin is damaged." in text, "ran no step" in text) == (True, False)


def test_a_process_with_steps_needs_no_explanation():
    """Where steps were recorded there is nothing to explain."""
    assert explain(profile(loops=[loop()], processes=[process()])) == ()


def test_a_running_job_may_not_be_there_yet():
    """Before a framework is imported a running job has recorded nothing, which is no fault."""
    run = Run("r1", "/runs/r1", (), "", "running")

    (text,) = explain(profile(processes=[], run=run))

    assert "yet" in text


def test_why_no_step_was_traced_is_told_once():
    """Steps were counted, and whoever asks for ops is told what the agent said."""
    why = "KINETO_USE_DAEMON is set: a daemon may start a trace at any time"
    ranks = [process(index=at, pid=4711 + at, untraced=why) for at in range(3)]

    (text,) = explain(profile(loops=[loop(process=at) for at in range(3)], processes=ranks))

    assert text == f"No step of process 4711 on {ranks[0].host} and 2 more was traced: {why}."
