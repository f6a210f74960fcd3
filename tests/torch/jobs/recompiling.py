"""Functions that are compiled again, broken graphs, a clean compilation, and Dynamo's counts."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import nn
from torch._dynamo.utils import counters

torch.manual_seed(0)
torch.set_num_threads(1)
BACKEND = "aot_eager"  # what is counted does not depend on who compiles the graphs


class Net(nn.Sequential):
    """Trained with batches of several sizes."""


def with_sizes() -> Any:
    model = Net(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    compiled = torch.compile(model, backend=BACKEND, dynamic=False)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(30):
        optimizer.zero_grad()
        compiled(torch.ones(4 + step // 6, 8)).sum().backward()
        optimizer.step()
    return model[0].weight


@torch.compile(backend=BACKEND)
def clean(x: Any) -> Any:
    return (x * 2).relu()


@torch.compile(backend=BACKEND)
def broken(x: Any) -> Any:
    y = x * 2
    print("seen by Dynamo")
    return y + x.sum().item()


@torch.compile(backend=BACKEND)
def skipped(x: Any) -> Any:
    for _ in range(2):
        x = x + 1
        print("in a loop")
    return x


@torch.compile(backend=BACKEND)
def scaled(x: Any, api_key: str) -> Any:
    return x * len(api_key)


def show(name: str, value: Any) -> None:
    print(name, value.detach().numpy().tobytes().hex())


show("sizes", with_sizes())
x = torch.arange(4.0)
with torch.no_grad():
    for _ in range(40):
        show("clean", clean(x))
    show("broken", broken(x))
    show("broken", broken(x.double()))
    show("skipped", skipped(x))
    for number in range(10):
        show("scaled", scaled(x, "k" * number))
print(json.dumps({name: dict(found) for name, found in counters.items()}, sort_keys=True))
print("COUNTS", json.dumps({"optimizer_step SGD": 30}))
