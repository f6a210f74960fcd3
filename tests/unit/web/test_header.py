"""Every page says what run it is of, and lets its works be chosen."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.support.open_runs import ToldRun
from tests.support.profiles import Step, loop, op, profile
from tfprobe.errors import Missing
from tfprobe.web.pages import loop_choice
from tfprobe.web.pages.loop_choice import loops_document
from tfprobe.web.pages.overview import header_document
from tfprobe.web.params import Params


def test_the_header_tells_what_was_run():
    """The command, how it stands, since when."""
    run = replace(
        profile().run,
        command=("python", "train.py"),
        state="running",
        started="2026-11-21T23:40:15+00:00",
    )

    found = header_document(ToldRun(replace(profile(), run=run)), Params())

    assert (found["command"], found["state"], found["is_live"], found["started"]) == (
        "python train.py",
        "running",
        True,
        "2026-11-21T23:40:15+00:00",
    )


def test_what_the_recording_does_not_tell_is_null():
    """A run without manifest has neither command nor beginning."""
    run = replace(profile().run, command=Missing("no"), started=Missing("no"))

    found = header_document(ToldRun(replace(profile(), run=run)), Params())

    assert (found["command"], found["started"]) == (None, None)


def test_works_are_named_by_their_place_and_come_by_their_time():
    """The first is the dearest; `at` is what `work=` names."""
    short, long = loop([10] * 3), loop([1000] * 3, index=1)
    run = ToldRun(profile([Step([op("MatMul", 0, 5)], loop=1)], loops=[short, long]))

    found = loops_document(run)

    assert [(each["at"], each["captures"]) for each in found] == [(1, 1), (0, 0)]
    assert run.loops()[0] is long


def test_there_are_no_more_works_than_a_person_can_choose_among(monkeypatch):
    """A run of many ranks has thousands."""
    monkeypatch.setattr(loop_choice, "MOST_LOOPS", 3)
    run = ToldRun(profile(loops=[loop(index=at) for at in range(9)]))

    assert len(loops_document(run)) == 3


def test_long_names_are_cut():
    """A fetch of a Session may have a name of a megabyte."""
    run = ToldRun(profile(loops=[loop(name="x" * 10**6)]))

    assert len(json.dumps(header_document(run, Params()))) < 2_000
