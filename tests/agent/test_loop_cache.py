"""Each step goes to the work it is a step of, and knowing it keeps nothing of the job alive."""

from __future__ import annotations

from tests.support.agent import Laboratory


def test_fetches_made_anew_for_every_call_are_told_apart(laboratory: Laboratory) -> None:
    """Named tuples and nested lists die at once, and their ids come again."""
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


def test_nothing_of_the_job_lives_longer(laboratory: Laboratory) -> None:
    """A session, what it fetched, and what its graph leads to can be collected as without us."""
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


def test_what_cannot_be_watched_is_looked_up_by_name(laboratory: Laboratory) -> None:
    """A fetch without weak references is counted like any other."""
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


def test_an_order_from_before_the_first_step_is_met(laboratory: Laboratory) -> None:
    """Steps may be asked for while the job still loads its data."""
    laboratory.arm(steps=[[1000, 1000]])

    laboratory.finish(
        """
from tfprobe_agent.core import recorder
words = recorder.current_recorder().steps.words
words[33], words[34], words[32] = 2, -1, 1
for _ in range(20): session.run("loss")
"""
    )

    samples = [event["step"] for event in laboratory.events() if event["event"] == "sample"]
    assert samples == [0, 1]
