"""Each step is counted in its loop, and the cache of loops keeps no object of the job alive."""

from __future__ import annotations

from tests.support.agent import Laboratory


def test_fetches_created_for_every_call_are_distinguished(laboratory: Laboratory) -> None:
    """Named tuples and nested lists are freed at once, and their ids recur."""
    laboratory.arm(trace_level="off")

    laboratory.finish(
        """
from collections import namedtuple
Out = namedtuple("Out", "first second")
for _ in range(300):
    session.run(Out("loss", "train"))
    session.run(Out("loss", "accuracy"))
    session.run(["loss"])
"""
    )

    assert laboratory.counts() == {
        "loss, train": 300,
        "loss, accuracy": 300,
        "loss": 300,
    }  # fmt: skip


def test_no_object_of_the_job_lives_longer(laboratory: Laboratory) -> None:
    """A session, its fetches, and what its graph leads to can be collected as without the agent."""
    laboratory.arm(trace_level="off")

    lines = laboratory.finish(
        """
import gc, weakref
class Fetch:
    def __init__(self, owner): self.graph, self.name, self.owner = object(), "fetch", owner
    def __call__(self): return 1
class Trainer:
    def __init__(self):
        self.session = session_module.BaseSession()
        self.fetch = Fetch(self)
def trial():
    trainer = Trainer()
    for _ in range(5): trainer.session.run(trainer.fetch)
    return weakref.ref(trainer)
trials = [trial() for _ in range(3)]
gc.collect()
print(sum(each() is not None for each in trials))
"""
    )

    assert lines == ["0"]
    assert laboratory.counts() == {"fetch": 15}


def test_an_object_without_weak_references_is_looked_up_by_name(laboratory: Laboratory) -> None:
    """Such a fetch is counted like any other."""
    laboratory.arm(trace_level="off")

    laboratory.finish(
        """
class Fetch:
    __slots__ = ("graph", "name")
    def __init__(self): self.graph, self.name = None, "slotted"
    def __call__(self): return 1
fetch = Fetch()
for _ in range(7): session.run(fetch)
"""
    )

    assert laboratory.counts() == {"slotted": 7}


def test_a_trace_request_from_before_the_first_step_is_met(laboratory: Laboratory) -> None:
    """It may come while the job still loads its data."""
    laboratory.arm(steps=[[1000, 1000]])

    laboratory.finish(
        """
from tfprobe_agent.core import recorder
from tfprobe_agent.core.steps_layout import REQUEST, REQUEST_LOOP, REQUEST_STEPS
words = recorder.current_recorder().steps.words
words[REQUEST_STEPS], words[REQUEST_LOOP], words[REQUEST] = 2, -1, 1
for _ in range(20): session.run("loss")
"""
    )

    samples = [event["step"] for event in laboratory.events(kind="sample")]
    assert samples == [0, 1]
