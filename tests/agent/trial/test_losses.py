"""The losses of the first steps are kept without waiting for them, and read with the weights."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.agent import load


class Scalar:
    """A number that a framework has yet to compute; reading it is noted."""

    shape, dtype = (), "toy.float32"

    def __init__(self, value: float) -> None:
        self.value, self.reads = value, 0

    def __float__(self) -> float:
        self.reads += 1
        return self.value


class Deleted(Scalar):
    """A number whose memory was given away."""

    def __float__(self) -> float:
        raise RuntimeError("Array has been deleted")


@pytest.fixture
def written(monkeypatch):
    """The documents that were written."""
    found: list[dict] = []
    process_dir = SimpleNamespace(write_file=lambda data, _name: found.append(json.loads(data)))
    recorder = SimpleNamespace(process_dir=process_dir)
    monkeypatch.setattr(load("trial.losses"), "current_recorder", lambda: recorder)
    return found


@pytest.fixture
def losses(written):
    """Those of a process."""
    return load("trial.losses").Losses()


def returned(losses, done, result):
    """End a step that has returned this, in a wrapper of the agent's."""
    source = "def step_wrapper(losses, done, result): losses.stepped(done)\n"
    wrapper: dict = {"__name__": "tfprobe_agent.core.step_wrapper"}
    exec(source, wrapper)
    wrapper["step_wrapper"](losses, done, result)


@pytest.mark.parametrize(
    ("result", "loss"),
    [
        (0.5, 0.5),
        (np.float32(0.5), 0.5),
        ({"accuracy": np.float32(0.9), "loss": np.float32(0.5)}, 0.5),
        (({"weights": np.ones(3)}, np.float32(0.5)), 0.5),
        (((np.float32(0.5), {"other": 1.0}), np.float32(0.25)), 0.25),
        ([None, np.array([1.0]), np.float64(0.5)], 0.5),
    ],
)
def test_the_loss_is_a_scalar_of_the_result(losses, written, result, loss) -> None:
    """By its name, else the one that lies least deep."""
    returned(losses, 1, result)
    losses.write()

    assert written == [{"losses": [[1, loss]]}]


@pytest.mark.parametrize("result", [None, 3, np.int64(3), np.ones(3), {"step": np.int32(1)}, "no"])
def test_what_is_no_number_of_floating_point_is_no_loss(losses, written, result) -> None:
    """The number of steps is none."""
    returned(losses, 1, result)
    losses.write()

    assert written == [{"missing": "no step has given a scalar loss"}]


def test_losses_are_read_together_at_the_end(losses, written) -> None:
    """An asynchronous job does not wait for each of them."""
    scalars = [Scalar(1.0), Scalar(0.5)]
    for number, scalar in enumerate(scalars):
        returned(losses, number + 1, scalar)
    reads_before = [scalar.reads for scalar in scalars]
    losses.write()

    assert reads_before == [0, 0]
    assert written == [{"losses": [[1, 1.0], [2, 0.5]]}]
    assert losses.kept == []


def test_a_loss_whose_memory_was_given_away_is_left_out(losses, written) -> None:
    """The others stay."""
    returned(losses, 1, Deleted(1.0))
    returned(losses, 2, Scalar(0.5))
    losses.write()

    assert written == [{"losses": [[2, 0.5]]}]


def test_what_backward_was_called_on_is_the_loss(losses, written, make_module) -> None:
    """Where a step is no call that returns it; of the step that ends next."""
    source = """
class Tensor:
    def backward(self):
        return "done"

class compiler:
    @staticmethod
    def is_compiling():
        return False
"""
    torch = make_module("torch", source)
    torch.Tensor.detach = lambda _self: Scalar(0.5)
    dict(_by_module(losses))["torch"]("torch", torch)

    assert torch.Tensor().backward() == "done"
    losses.stepped(1)
    losses.stepped(2)
    losses.write()
    assert torch.Tensor().backward() == "done"

    assert written == [{"losses": [[1, 0.5]]}]


def test_what_a_tape_differentiates_is_the_loss(losses, written, make_module) -> None:
    """In an eager step."""
    name = "tensorflow.python.eager.backprop"
    source = "class GradientTape:\n    def gradient(self, target, sources): return sources\n"
    module = make_module(name, source)
    dict(_by_module(losses))[name](name, module)

    assert module.GradientTape().gradient(Scalar(0.5), "sources") == "sources"
    losses.stepped(1)
    losses.write()

    assert written == [{"losses": [[1, 0.5]]}]


def _by_module(losses):
    return [(name, patch) for names, patch in losses.patches() for name in names]
