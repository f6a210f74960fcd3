"""A loop that updates its weights itself, before and after the same is compiled in part."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import nn
from torch._dynamo.utils import counters

torch.manual_seed(0)
torch.set_num_threads(1)
X = torch.randn(64, 32)
Y = torch.randint(0, 4, (64,))
model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 4))


def loss_of(called: Any) -> Any:
    return nn.functional.cross_entropy(called(X), Y)


def update() -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None


def train_step() -> Any:
    loss = loss_of(model)
    loss.backward()
    update()
    return loss


def of_weights(weights: Any) -> Any:
    return loss_of(lambda x: torch.func.functional_call(model, weights, (x,)))


def functional_step(weights: Any) -> Any:
    found = torch.func.grad(of_weights)(weights)
    return {name: weights[name] - 0.1 * found[name] for name in weights}


for _ in range(8):
    train_step()
compiled_model = torch.compile(model, backend="eager")
for _ in range(8):
    loss_of(compiled_model).backward()
    update()
compiled_step = torch.compile(train_step, backend="eager")
for _ in range(40):
    loss = compiled_step()
functional = torch.compile(functional_step, backend="eager")
weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
for _ in range(40):
    weights = functional(weights)
print(float(loss.detach()), float(sum(weight.sum() for weight in weights.values())))
print(json.dumps({name: dict(found) for name, found in counters.items()}, sort_keys=True))
print(
    "COUNTS",
    json.dumps(
        {
            "optimizer_step Tensor.backward": 8,
            "compiled_step train_step": 40,
            "compiled_step functional_step": 40,
        }
    ),
)
