"""Programs under torch.compile: what each computes, and Dynamo's counts of graphs and breaks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
X = torch.randn(64, 32)
Y = torch.randint(0, 4, (64,))
BACKEND = (
    "eager"  # Dynamo alone: what it makes of a program does not depend on what compiles the graphs
)
COUNTS: dict[str, int] = {}


class Trained(nn.Sequential):
    """Compiled, trained and evaluated."""


class Evaluated(nn.Sequential):
    """Evaluated before it is compiled."""


class Own(nn.Sequential):
    """Compiled by its own method."""


class Adam(torch.optim.Adam):
    """Its step is compiled alone."""


def made(cls: Any) -> Any:
    torch.manual_seed(3)
    return cls(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))


def total(model: Any) -> float:
    return float(sum(parameter.detach().sum() for parameter in model.parameters()))


def update(model: Any, optimizer: Any, size: int = 64) -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(X[:size]), Y[:size]).backward()
    optimizer.step()


def a_model() -> float:
    model = made(Trained)
    compiled = torch.compile(model, backend=BACKEND)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        compiled.train()
        for _ in range(20):
            update(compiled, optimizer)
        compiled.eval()
        with torch.no_grad():
            for _ in range(12):
                compiled(X)
    COUNTS["optimizer_step SGD"] = 40
    COUNTS["forward Trained"] = 24
    return total(model)


def a_model_that_was_evaluated() -> float:
    model = made(Evaluated).eval()
    compiled = torch.compile(model, backend=BACKEND)
    with torch.no_grad():
        for _ in range(12):
            compiled(X)
    model.eval()
    with torch.no_grad():
        for _ in range(12):
            compiled(X)
    COUNTS["forward Evaluated"] = 24
    return float(compiled(X).sum().detach())


def a_method() -> float:
    model = made(Own)
    model.compile(backend=BACKEND)
    optimizer = torch.optim.RMSprop(model.parameters())
    for _ in range(30):
        update(model, optimizer)
    COUNTS["optimizer_step RMSprop"] = 30
    return total(model)


def an_optimizer() -> float:
    model = made(nn.Sequential)
    optimizer = Adam(model.parameters())
    step = torch.compile(optimizer.step, backend=BACKEND)
    for _ in range(30):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X), Y).backward()
        step()
    return total(model)


def several_shapes() -> float:
    model = made(nn.Sequential)
    compiled = torch.compile(model, backend=BACKEND, dynamic=False)
    optimizer = torch.optim.Adagrad(model.parameters())
    for step in range(30):
        update(compiled, optimizer, 8 * (1 + step % 4))
    COUNTS["optimizer_step Adagrad"] = 30
    return total(model)


def functions() -> float:
    @torch.compile(backend=BACKEND)
    def inner(x: Any) -> Any:
        return x.sin() + 1

    @torch.compile(backend=BACKEND)
    def outer(x: Any) -> Any:
        return inner(x) * 2

    with torch.no_grad():
        for _ in range(40):
            result = outer(X)
    COUNTS["compiled_step outer"] = 40
    return float(result.sum())


def an_export() -> float:
    program = torch.export.export(made(nn.Sequential).eval(), (X,))
    return float(program.module()(X).sum().detach())


def a_whole_step() -> float:
    model = made(nn.Sequential)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    @torch.compile(backend=BACKEND)
    def train_step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(50):
        loss = train_step(X, Y)
    return float(loss.detach())


def run(program: Callable[[], float]) -> None:
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    print(program.__name__, program())
    known = {name: dict(counters[name]) for name in ("stats", "graph_break", "recompiles")}
    print(json.dumps(known, sort_keys=True))


for program in (
    a_model,
    a_model_that_was_evaluated,
    a_method,
    an_optimizer,
    several_shapes,
    functions,
    an_export,
    a_whole_step,
):
    run(program)
print("COUNTS", json.dumps(COUNTS))
