"""Loops of PyTorch without an optimizer: each outermost gradient ends a step."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.support.agent import load

gradients, optimizers = load("frameworks.torch.gradients"), load("frameworks.torch.optimizers")
thread_state, threads = load("frameworks.torch.thread_state"), load("core.threads")


class Loop:
    """Counts steps; `late` are those that were counted when the loop was known to be one."""

    def __init__(self) -> None:
        self.late: list[tuple[int, int]] = []
        self.ended = 0

    def record(self, start_ns: int, end_ns: int) -> None:
        self.late.append((start_ns, end_ns))

    @property
    def count(self) -> int:
        return len(self.late) + self.ended


class Job:
    """What a job does with the PyTorch that it has imported."""

    def __init__(self, torch: Any, loops: dict[str, Loop]) -> None:
        self.torch, self.loops = torch, loops

    def backward(self, *args: Any, **kwargs: Any) -> Any:
        return self.torch.Tensor().backward(*args, **kwargs)

    def grad(self, function: Any) -> Any:
        return sys.modules[gradients._FUNCTIONS].grad_and_value_impl(function, 0, False, (), {})

    @property
    def counts(self) -> dict[str, int]:
        return {name: loop.count for name, loop in self.loops.items()}


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, state: Any) -> Job:
    """A job that has just imported PyTorch."""

    class Tensor:
        def backward(
            self,
            gradient: Any = None,
            retain_graph: Any = None,
            create_graph: bool = False,
            inputs: Any = None,
        ) -> str:
            if callable(gradient):
                gradient()
            return "taken"

    class Optimizer:
        def __init__(self) -> None:
            cls: Any = type(self)
            if not getattr(cls.step, "hooked", False):
                cls.step = self.profile_hook_step(cls.step)
                cls.step.hooked = True

        @staticmethod
        def profile_hook_step(step: Any) -> Any:
            return lambda self: step(self)

        def step(self) -> None:
            """Nothing to do."""

    def grad_and_value_impl(function: Any, argnums: Any, aux: Any, args: Any, kwargs: Any) -> Any:
        return function(*args, **kwargs)

    torch = ModuleType("torch")
    contents = {
        "Tensor": Tensor,
        "compiler": SimpleNamespace(is_compiling=lambda: False),
        "_C": SimpleNamespace(_current_graph_task_id=lambda: -1),
        "optim": SimpleNamespace(Optimizer=Optimizer),
    }
    vars(torch).update(contents)
    functions = ModuleType(gradients._FUNCTIONS)
    functions.grad_and_value_impl = grad_and_value_impl  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, gradients._FUNCTIONS, functions)
    loops: dict[str, Loop] = {}

    def find_loop(gradient: Any) -> Loop:
        return loops.setdefault(gradient.name, Loop())

    def end_step(gradient: Any) -> None:
        find_loop(gradient).ended += 1

    monkeypatch.setattr(optimizers, "find_loop", find_loop)
    monkeypatch.setattr(optimizers, "end_step", end_step)
    monkeypatch.setattr(threads.THREAD.current, "torch", thread_state.TorchThread())
    monkeypatch.setattr(gradients._Wrapped, "places", [])
    gradients.patch(torch)
    return Job(torch, loops)


def test_the_fifth_gradient_makes_steps_of_all(job: Job) -> None:
    """Fewer are a look at a model."""
    for _ in range(4):
        assert job.backward() == "taken"
    assert job.counts == {}

    for _ in range(3):
        job.backward()

    assert job.counts == {"Tensor.backward": 7}
    assert len(job.loops["Tensor.backward"].late) == 5


def test_steps_that_are_counted_late_lie_one_after_the_other(job: Job) -> None:
    """From the end of one gradient to the end of the next."""
    for _ in range(5):
        job.backward()

    late = job.loops["Tensor.backward"].late
    assert [start for start, _ in late[1:]] == [end for _, end in late[:-1]]
    assert all(start <= end for start, end in late)


def test_a_gradient_inside_of_another_is_part_of_it(job: Job) -> None:
    """As where a layer is computed again, or a gradient of a gradient is taken by functions."""
    for _ in range(6):
        job.backward(lambda: job.backward())
        job.grad(lambda: job.grad(lambda: 1))

    assert job.counts == {"Tensor.backward": 12 - 6, "torch.func.grad": 6}


def test_a_gradient_in_a_thread_of_the_engine_is_part_of_another(job: Job) -> None:
    """PyTorch says that the thread computes one."""
    job.torch._C._current_graph_task_id = lambda: 3
    gradients.leave()
    gradients.patch(job.torch)

    for _ in range(6):
        job.backward()

    assert job.counts == {}


@pytest.mark.parametrize("arguments", [((), {"create_graph": True}), ((None, None, True), {})])
def test_a_gradient_that_another_is_taken_of_ends_no_step(job: Job, arguments: Any) -> None:
    """As in a gradient penalty."""
    args, kwargs = arguments
    for _ in range(6):
        job.backward(*args, **kwargs)
        job.backward(None, False, False)

    assert job.counts == {"Tensor.backward": 6}


def test_a_gradient_that_raises_ends_no_step(job: Job) -> None:
    """And the next one is an outermost one all the same."""

    def fail() -> None:
        raise ValueError("no gradient")

    for _ in range(6):
        with pytest.raises(ValueError, match="no gradient"):
            job.backward(fail)
        job.backward()

    assert job.counts == {"Tensor.backward": 6}


@pytest.mark.parametrize("leaves", ["an optimizer", "a compilation"])
def test_gradients_are_left_alone_where_they_end_no_steps(job: Job, leaves: str) -> None:
    """Nothing of ours is in the way of loops with an optimizer, or of torch.compile."""
    cls = job.torch.optim.Optimizer
    for _ in range(6):
        job.backward()
    wrapped, preparing = job.torch.Tensor.backward, vars(cls)["profile_hook_step"]

    if leaves == "a compilation":
        gradients.leave()
    else:
        type("Own", (cls,), {})().step()
    job.backward()
    job.backward()
    wrapped(job.torch.Tensor())

    assert job.counts == {"Tensor.backward": 6}
    assert job.torch.Tensor.backward is wrapped.__wrapped__
    assert vars(cls)["profile_hook_step"].__func__ is preparing.__func__.__wrapped__


def test_what_the_job_has_put_around_a_gradient_stays(job: Job) -> None:
    """It calls what was there before, which then counts no more."""
    wrapped = job.torch.Tensor.backward
    own = job.torch.Tensor.backward = lambda tensor: wrapped(tensor)

    gradients.leave()
    for _ in range(6):
        job.backward()

    assert job.torch.Tensor.backward is own
    assert job.counts == {}
