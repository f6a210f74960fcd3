"""An arm of a trial counts units, says what became of its fixes, and stops the job."""

from __future__ import annotations

import json

import pytest

from tests.support.agent import Laboratory, load

TRIAL = {
    "arm": "base",
    "fixes": {},
    "unit": None,
    "weights_at": 2,
    "warm_units": 4,
    "seconds": 3600.0,
    "units": 10,
    "seed": 0,
}
ENDLESS = """
import atexit
atexit.register(print, "an exit hook of the job ran")
step = def_function.Function()
try:
    while True:
        step(1)
finally:
    print("a finally block of the job ran")
"""


def _trial(laboratory: Laboratory, job: str, **changes) -> list[str]:
    laboratory.arm(trace_level="off", trial={**TRIAL, **changes})
    return laboratory.finish(job)


def test_a_trial_stops_at_the_last_unit_without_the_jobs_exit_hooks(laboratory):
    """Exports and uploads of the job would happen with a model of few steps."""
    printed = _trial(laboratory, ENDLESS)

    lines = laboratory.lines("trial.jsonl")
    assert printed == []
    assert lines[0]["unit"] == {"kind": "function", "name": "step"}
    assert lines[-2]["units"] == 10
    assert lines[-1] == {"stopped": "units"}
    assert laboratory.counts() == {"step": 10}
    assert laboratory.steps().header.state.name == "FINISHED"


def test_a_trial_stops_after_its_seconds(laboratory):
    """They begin when the warm-up is over."""
    _trial(laboratory, ENDLESS, seconds=0.0, units=100000)

    assert laboratory.lines("trial.jsonl")[-1] == {"stopped": "seconds"}
    assert laboratory.counts() == {"step": 4}


def test_a_job_that_ends_before_says_so(laboratory):
    """What it did counts as far as it came."""
    printed = _trial(laboratory, "for _ in range(3): def_function.Function()(1)\nprint('done')")

    lines = laboratory.lines("trial.jsonl")
    assert printed == ["done"]
    assert lines[-1] == {"stopped": "ended"}


def test_marks_are_in_order_and_have_the_cpu_time(laboratory):
    """Each is the end of a unit."""
    job = "step = def_function.Function()\nwhile True:\n    step(1)\n    time.sleep(0.021)"
    _trial(laboratory, job)

    marks = [line for line in laboratory.lines("trial.jsonl") if "units" in line]
    assert [mark["units"] for mark in marks] == list(range(1, 11))
    assert sorted(marks, key=lambda mark: (mark["mono_ns"], mark["cpu_ns"])) == marks


def test_only_steps_of_the_given_unit_count(laboratory):
    """Others do not stop the job."""
    job = """
other, step = def_function.Function(name="other"), def_function.Function()
for _ in range(20):
    other(1)
while True:
    step(1)
"""
    _trial(laboratory, job, unit={"kind": "function", "name": "step"})

    assert laboratory.counts() == {"other": 20, "step": 10}


def test_the_seed_is_the_jobs_first(laboratory):
    """Python's random numbers are the same in all arms."""
    job = "import random\nprint(random.random())"

    first = _trial(laboratory, job)
    again = Laboratory(laboratory.folder / "again")
    again.folder.mkdir()

    assert _trial(again, job) == first


def test_missing_weights_have_a_reason(laboratory):
    """The toy has no NumPy."""
    _trial(laboratory, ENDLESS)

    (folder,) = laboratory.folders()
    weights = json.loads((folder / "weights.json").read_text())
    assert weights == {"missing": "the job has not imported NumPy"}


def test_an_unknown_fix_is_told(laboratory):
    """It is not applied."""
    _trial(laboratory, ENDLESS, fixes={"no_such_fix": None})

    *_, event = laboratory.events(kind="fix")
    assert (event["applied"], event["error"]) == (0, "unknown fix")


def test_a_recorded_job_loads_nothing_of_trials(laboratory):
    """Without the key in config.json there is none."""
    laboratory.arm()
    job = """
def_function.Function()(1)
print([name for name in sys.modules if name.startswith("tfprobe_agent.trial")])
print(sys.modules["tfprobe_agent.hooks"].PATCH_FIRST)
"""

    assert laboratory.finish(job) == ["[]", "[]"]


@pytest.mark.parametrize("change", [{"fixes": None}, {"unit": {"kind": "fit"}}, {"units": "many"}])
def test_a_trial_of_no_use_is_refused(tmp_path, change):
    """The launcher is wrong then."""
    document = {"schema": "tfprobe.config/1", "trace_level": "off", "budget": 0.01}
    (tmp_path / "config.json").write_text(json.dumps({**document, "trial": {**TRIAL, **change}}))

    with pytest.raises(ValueError, match="a trial with"):
        load("config").read_config(str(tmp_path))
