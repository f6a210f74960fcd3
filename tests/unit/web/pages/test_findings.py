"""Findings come as the engine has them, with links to what they go by."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.open_runs import ToldRun
from tests.support.profiles import Step, op, process, profile, timed_loop
from tests.support.rundir import MONO_NS, UNIX_NS
from tfprobe.findings import engine
from tfprobe.findings.trials import with_measured
from tfprobe.profile.graph import TracedLoop
from tfprobe.profile.profile import Profile
from tfprobe.report.text.findings import describe_gain
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.trials import trials_of
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


def tried(output: Path, command: tuple[str, ...]) -> None:
    """Keep a trial of a command that measured what the finding names."""
    (output / "trials").mkdir()
    fix = {"fix": "reduce_retracing", "verdict": "won"}
    ratios = {"gain_ratio": 0.83, "low_ratio": 0.77, "high_ratio": 0.88}
    document = {"command": list(command), "fixes": [{**fix, **ratios}]}
    (output / "trials" / "20261126-000000-train-abcdef.json").write_text(json.dumps(document))


def beside(tmp_path: Path) -> ToldRun:
    """Return a run of `python train.py` in a directory of runs."""
    run = replace(retraced().run, command=("python", "train.py"))
    opened = ToldRun(replace(retraced(), run=run))
    opened.folder = RunFolder(tmp_path / "r1")
    return opened


def test_a_trial_of_the_same_command_takes_the_place_of_the_bound(tmp_path):
    """As `tfprobe advise` says it, also where the page was shown before the trial."""
    opened = beside(tmp_path)
    before = answers.answer(opened, "findings", Params())["findings"][0]
    tried(tmp_path, ("python", "train.py"))

    finding = answers.answer(opened, "findings", Params())["findings"][0]

    advice = with_measured(
        engine.advise(opened.profile, [opened.sampled(opened.loops()[0])]),
        trials_of(("python", "train.py"), tmp_path),
    )
    assert before["gain_text"].startswith("at most")
    assert finding["gain_text"] == describe_gain(advice.findings[0])
    assert finding["gain_text"] == "measured +83.0 % [77, 88] (reduce_retracing)"
    assert finding["measured"][0]["text"] == finding["gain_text"]


def test_a_trial_of_another_command_says_nothing(tmp_path):
    """The bound stays."""
    opened = beside(tmp_path)
    tried(tmp_path, ("python", "train.py", "--other"))

    finding = answers.answer(opened, "findings", Params())["findings"][0]

    assert finding["measured"] == []
    assert finding["gain_text"].startswith("at most")


def test_an_action_names_what_tries_it():
    """To be copied, as on a terminal."""
    action = asked(retraced())["findings"][0]["action"]

    assert {"text": "tfprobe try tensors_for_numbers reduce_retracing", "is_code": True} in action
