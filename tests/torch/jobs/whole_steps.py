"""A training step that is compiled as a whole: no optimizer steps outside of it."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
X = torch.randn(64, 32)
Y = torch.randint(0, 4, (64,))
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)


@torch.compile(backend="eager")
def train_step(x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


for _ in range(80):
    loss = train_step(X, Y)
print(float(loss.detach()), train_step.__name__)
print("COUNTS", json.dumps({"compiled_step train_step": 80}))
