"""Callbacks that take a twentieth of the cycle are told, with the line that calls them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.subjects import WHOLE_NS, cause, found, loop, parts, process
from tfprobe.analysis.system.application import ActivityInSteps


def test_a_twentieth_of_the_cycle_is_told() -> None:
    """Callbacks and summaries count together; the cause is named by its line."""
    longest = cause("callbacks", "on_train_batch_end", "train.py:12", 0.3)
    shares = replace(parts(callbacks=0.03, summaries=0.02), causes=(longest,))

    finding = found("callbacks_slow", loop(parts=shares))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.05
    assert "train.py:12" in {each.source for each in finding.evidence}


def test_callbacks_at_the_ends_of_epochs_count() -> None:
    """They are rare and long, and no part of the usual cycle."""
    at_epochs = ActivityInSteps("callbacks", "CallbackList.on_epoch_end", 3, WHOLE_NS // 20)
    rare = process(activities=(at_epochs,))

    finding = found("callbacks_slow", loop(process=rare))

    assert finding is not None
    assert any("3 times" in each.text for each in finding.evidence)
    assert found("callbacks_slow", loop(process=rare, is_main=False)) is None


def test_less_is_not() -> None:
    """A progress bar costs something, too."""
    assert found("callbacks_slow", loop(parts=parts(callbacks=0.049))) is None


@pytest.mark.parametrize(
    ("part", "what", "advised"),
    [
        ("summaries", "scalar", "update_freq='epoch'"),
        ("callbacks", "progbar_logger.on_train_batch_end", "verbose=2"),
        ("callbacks", "tensorboard.on_train_batch_end", "whatever its update_freq"),
        ("callbacks", "on_train_batch_end", "every Nth batch"),
    ],
)
def test_what_is_advised_fits_what_was_seen(part: str, what: str, advised: str) -> None:
    """A progress bar is no TensorBoard, and a callback of the job neither."""
    shares = replace(parts(callbacks=0.1), causes=(cause(part, what, "", 1.0),))

    finding = found("callbacks_slow", loop(parts=shares))

    assert finding is not None
    assert advised in finding.action


def test_at_the_ends_of_epochs_there_is_no_batch_to_skip() -> None:
    """TensorBoard that writes of epochs already is told of its histograms."""
    at_epochs = ActivityInSteps("callbacks", "CallbackList.on_epoch_end", 3, WHOLE_NS // 5)

    finding = found(
        "callbacks_slow", loop(process=process(activities=(at_epochs,)), parts=parts(callbacks=0.1))
    )

    assert finding is not None
    assert "histogram_freq=0" in finding.action
    assert "update_freq" not in finding.action
    assert "3 times" in finding.evidence[0].text


def test_the_bound_has_what_is_fetched_for_callbacks() -> None:
    """Who takes a callback out, or calls it less often, wins the reading of logs, too."""
    finding = found("callbacks_slow", loop(parts=parts(callbacks=0.1, fetch=0.05)))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.15
    assert found("callbacks_slow", loop(parts=parts(callbacks=0.04, fetch=0.5))) is None
