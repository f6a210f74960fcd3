"""Findings come as the engine has them, with links to what they go by."""

from __future__ import annotations

import json
from typing import Any

from tests.support.open_runs import ToldRun
from tests.support.profiles import Step, op, process, profile, timed_loop
from tests.support.rundir import MONO_NS, UNIX_NS
from tfprobe.findings import engine
from tfprobe.profile.graph import TracedLoop
from tfprobe.profile.profile import Profile
from tfprobe.web import answers
from tfprobe.web.params import Params

MS = 1_000_000


def asked(told: Profile) -> dict[str, Any]:
    found = answers.answer(ToldRun(told), "findings", Params())
    assert json.loads(json.dumps(found, allow_nan=False))
    return found


def retraced() -> Profile:
    """Return steps of 10 ms of which every fifth was traced for 100 ms."""
    times = [100 * MS if at % 5 == 0 else 10 * MS for at in range(100)]
    return profile(
        [Step([op("MatMul", 0, 9_000)], duration_us=10_000)],
        loops=[timed_loop(times, kind="function", name="step", retraces=20, sampled=[7])],
        processes=[process(unix_minus_monotonic_ns=UNIX_NS - MONO_NS)],
    )


def test_findings_come_in_the_order_of_the_engine():
    """The page shows what `tfprobe advise` shows."""
    told = retraced()

    found = asked(told)

    sampled = ToldRun(told).sampled(told.loops[0])
    assert isinstance(sampled, TracedLoop)
    expected = [each.rule for each in engine.advise(told, [sampled]).findings]
    assert [each["rule"] for each in found["findings"]] == expected
    assert found["findings"][0]["rule"] == "retracing"
    assert found["top"][0] == 0


def test_evidence_leads_to_the_steps():
    """Of a function that is traced again and again the slowest steps."""
    finding = asked(retraced())["findings"][0]

    steps = next(each for each in finding["evidence"] if each["text"].startswith("the slowest"))
    link = steps["links"][0]
    assert link["page"] == "steps"
    assert link["args"]["work"] == finding["work"] == 0
    assert link["args"]["step"] % 5 == 0


def test_what_to_do_can_be_copied():
    """Code is marked as such."""
    action = asked(retraced())["findings"][0]["action"]

    assert {"text": "tf.function(reduce_retracing=True)", "is_code": True} in action


def test_a_gain_is_a_bound_in_time_and_share():
    """At most so much, likely so much, of so much."""
    gain = asked(retraced())["findings"][0]["gain"]

    assert 0 < gain["low_ns"] < gain["high_ns"] < gain["of_ns"]
    assert gain["high_ratio"] == gain["high_ns"] / gain["of_ns"]


def test_rules_without_anything_to_go_by_say_why():
    """No step was traced: most rules cannot tell."""
    found = asked(profile(loops=[timed_loop([10 * MS] * 50)]))

    assert found["missing"].startswith("no step was traced")
    assert {"input_bound", "tiny_ops"} <= {each["rule"] for each in found["unchecked"]}
    assert all(each["reason"] for each in found["unchecked"])


def test_without_steps_there_are_no_findings():
    """And the document says why."""
    found = asked(profile())

    assert found["findings"] == []
    assert found["missing"] == "no step has been recorded"
