"""Trains, with something that takes time at lines that a test knows."""

from __future__ import annotations

import json
import time
from typing import Any

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
STEPS = 60


class Net(nn.Module):
    """Calls a module, a function and an operator."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(32, 64)
        self.second = nn.Linear(64, 4)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        x = torch.tanh(x)
        x = x * 2
        return self.second(x)


def log(loss: Any) -> float:
    value = float(loss.item())
    time.sleep(0.004)
    return value


model = Net()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
x = torch.randn(64, 32)
total = 0.0


def train() -> None:
    global total
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        total += log(loss)


train()
print(total)
print("COUNTS", json.dumps({"optimizer_step SGD": STEPS}))
