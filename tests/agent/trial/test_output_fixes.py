"""Fixes of what a job writes: checkpoints and summaries, each Nth only."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.support.agent import load

SAVER = """
class Saver:
    saved = 0
    def save(self, session, path):
        self.saved += 1
        return path + "-" + str(self.saved)
def of_a_hook(saver):
    return saver.save(None, "hook")
"""
CHECKPOINT = """
class ModelCheckpoint:
    def __init__(self, path, monitor="loss", save_freq="epoch"):
        self.save_freq = save_freq
"""
SESSION = """
class BaseSession:
    def __init__(self):
        self.runs = []
    def run(self, fetches, feed_dict=None):
        self.runs.append(fetches)
        return self._values(fetches)
    def _values(self, fetches):
        if isinstance(fetches, dict):
            return {key: self._values(fetch) for key, fetch in fetches.items()}
        if isinstance(fetches, (list, tuple)):
            return [self._values(fetch) for fetch in fetches]
        return "%s of run %d" % (fetches.name, len(self.runs))
"""
WRITER = """
class SummaryToEventTransformer:
    def __init__(self):
        self.written = []
    def add_summary(self, summary, step=None):
        self.written.append(summary)
"""


def _op(name, kind):
    return SimpleNamespace(name=name, type=kind)


TRAIN, LOSS = _op("train", "NoOp"), _op("loss", "Mean")
MERGED = _op("merged", "MergeSummary")


def test_each_nth_checkpoint_is_written(make_module, fix):
    """The others return the path of the last one, which exists."""
    module = make_module("tensorflow.python.training.saver", SAVER)
    note = fix("save_every", module, 3)
    saver = module.Saver()

    paths = [saver.save(None, "model") for _ in range(5)]

    assert paths == ["model-1"] * 3 + ["model-2"] * 2
    assert note.times == 3


def test_savers_of_libraries_write_all(make_module, fix):
    """Their hooks have intervals of their own."""
    module = make_module("tensorflow.python.training.saver", SAVER)
    fix("save_every", module, 3)
    saver = module.Saver()

    assert [module.of_a_hook(saver) for _ in range(3)] == ["hook-1", "hook-2", "hook-3"]


@pytest.mark.parametrize(("given", "used", "times"), [(5, 50, 1), ("epoch", "epoch", 0)])
def test_keras_checkpoints_at_ever_tenth_of_its_batches(make_module, fix, given, used, times):
    """Those at the ends of epochs stay."""
    module = make_module("keras.src.callbacks", CHECKPOINT)
    note = fix("save_every", module, 10)

    checkpoint = module.ModelCheckpoint("path", save_freq=given)

    assert (checkpoint.save_freq, note.times) == (used, times)


@pytest.fixture
def session(make_module, fix):
    """A Session of which each third run computes summaries."""
    module = make_module("tensorflow.python.client.session", SESSION)
    session = module.BaseSession()
    session.note = fix("summaries_every", module, 3)
    return session


def test_each_nth_run_computes_the_summaries(session):
    """The others return the values of the last one that did."""
    results = [session.run([TRAIN, {"loss": LOSS, "all": MERGED}]) for _ in range(4)]

    assert [fetches[1] for fetches in session.runs] == [
        {"loss": LOSS, "all": MERGED},
        {"loss": LOSS},
        {"loss": LOSS},
        {"loss": LOSS, "all": MERGED},
    ]
    assert [result[1] for result in results] == [
        {"loss": "loss of run 1", "all": "merged of run 1"},
        {"loss": "loss of run 2", "all": "merged of run 1"},
        {"loss": "loss of run 3", "all": "merged of run 1"},
        {"loss": "loss of run 4", "all": "merged of run 4"},
    ]
    assert session.note.times == 2


def test_what_is_left_out_keeps_its_place(session):
    """Whatever comes before and after a summary."""
    results = [session.run((MERGED, TRAIN, (MERGED,), LOSS)) for _ in range(2)]

    assert results[1] == (
        "merged of run 1",
        "train of run 2",
        ("merged of run 1",),
        "loss of run 2",
    )


def test_a_run_of_summaries_alone_is_left_out(session):
    """There is nothing else to do."""
    results = [session.run(MERGED) for _ in range(3)]

    assert results == ["merged of run 1"] * 3
    assert session.runs == [MERGED]


def test_a_run_without_summaries_does_not_change(session):
    """It is not counted, either."""
    assert [session.run(LOSS) for _ in range(2)] == ["loss of run 1", "loss of run 2"]
    assert session.note.times == 0


def test_repeated_summaries_are_not_written_again(session, make_module, fix):
    """The writer gets the same value as before."""
    module = make_module("tensorflow.python.summary.writer.writer", WRITER)
    fix("summaries_every", module, 3)
    writer = module.SummaryToEventTransformer()

    for step in range(4):
        writer.add_summary(session.run([TRAIN, MERGED])[1], step)

    assert writer.written == ["merged of run 1", "merged of run 4"]


def test_summaries_of_tensorflow_2_are_written_each_nth_time(make_module, fix, monkeypatch):
    """By their tags."""
    monkeypatch.setattr(load("frameworks.tensorflow.functions"), "executing_eagerly", lambda: True)
    make_module("tensorflow.python.framework.constant_op", "def constant(value):\n    return value")
    module = make_module(
        "tensorflow.python.ops.summary_ops_v2",
        "written = []\ndef write(tag, tensor, step=None):\n    written.append((tag, step))\n",
    )
    note = fix("summaries_every", module, 2)

    for step in range(3):
        module.write("loss", 0.5, step=step)
        module.write("rate", 0.1, step=step)

    assert module.written == [("loss", 0), ("rate", 0), ("loss", 2), ("rate", 2)]
    assert note.times == 2
