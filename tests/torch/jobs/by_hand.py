"""Loops that update their weights themselves, then one with an optimizer."""

from __future__ import annotations

import json
import pickle
import warnings
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, grad_and_value, vmap

torch.manual_seed(0)
torch.set_num_threads(1)
X = torch.randn(64, 32)
Y = torch.randint(0, 4, (64,))
RATE = 0.1


class Tagged(torch.Tensor):
    """Its calls pass through `__torch_function__`."""


def made() -> Any:
    return nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 4))


def total(model: Any) -> float:
    return float(sum(parameter.detach().sum() for parameter in model.parameters()))


def update(model: Any) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= RATE * parameter.grad
            parameter.grad = None


def loss_of(model: Any) -> Any:
    return nn.functional.cross_entropy(model(X), Y)


def plain() -> float:
    model = made()
    for _ in range(12):
        loss_of(model).backward()
        update(model)
    return total(model)


def with_a_penalty() -> float:
    model = made()
    for _ in range(6):
        loss = loss_of(model)
        found = torch.autograd.grad(loss, model.parameters(), create_graph=True)
        (loss + sum(each.square().sum() for each in found)).backward()
        update(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(6):
            loss_of(model).backward(create_graph=True)
            sum(each.grad.square().sum() for each in model.parameters()).backward()
            update(model)
    print([(each.filename.rpartition("/")[2], each.lineno) for each in caught])
    return total(model)


def accumulating() -> float:
    model = made()
    for _ in range(6):
        for _ in range(3):
            (loss_of(model) / 3).backward()
        update(model)
    return total(model)


def inside_another() -> float:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            with torch.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                (x * 2).backward(gradient)
            return x.grad

    x = torch.ones(3, requires_grad=True)
    for _ in range(6):
        Twice.apply(x).sum().backward()
    tagged = torch.ones(3).as_subclass(Tagged).requires_grad_()
    for _ in range(6):
        (tagged * 3).sum().backward()
    return float(x.grad.sum() + tagged.grad.as_subclass(torch.Tensor).sum())


def that_raises() -> str:
    try:
        torch.ones(3, requires_grad=True).backward()
    except RuntimeError as error:
        trace: Any = error.__traceback__
        files = []
        while trace is not None:
            files.append(trace.tb_frame.f_code.co_filename.rpartition("/")[2])
            trace = trace.tb_next
        return f"{error} {files}"
    return "nothing"


def functional() -> float:
    model = made()
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(weights: Any, x: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(functional_call(model, weights, (x,)), y)

    for _ in range(10):
        found = grad(loss)(weights, X, Y)
        weights = {name: weights[name] - RATE * found[name] for name in weights}
    for _ in range(10):
        found, _value = grad_and_value(loss)(weights, X, Y)
        weights = {name: weights[name] - RATE * found[name] for name in weights}
    for _ in range(10):
        found = vmap(grad(loss), (None, 0, 0))(weights, X[:, None], Y[:, None])
        weights = {name: weights[name] - RATE * found[name].mean(0) for name in weights}
    return float(sum(weight.sum() for weight in weights.values()) + grad(grad(torch.sin))(X[0, 0]))


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    (x * x).sum().backward()
    return x


def optimized() -> float:
    model = made()
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    for _ in range(10):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
    return total(model) + plain()


for program in (plain, with_a_penalty, accumulating, inside_another, that_raises, functional):
    print(program.__name__, program())
print(pickle.loads(pickle.dumps(torch.Tensor.backward)) is torch.Tensor.backward)
print(scripted(torch.ones(2, requires_grad=True)).grad, torch.Tensor.backward.__name__)
print(optimized.__name__, optimized())
print(pickle.loads(pickle.dumps(torch.Tensor.backward)) is torch.Tensor.backward)
print(
    "COUNTS",
    json.dumps(
        {
            "optimizer_step Tensor.backward": 12 + 12 + 18 + 12,
            "optimizer_step torch.func.grad": 31,
            "optimizer_step SGD": 10,
        }
    ),
)
