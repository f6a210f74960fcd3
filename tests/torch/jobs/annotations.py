"""Annotations of the program that last beyond a traced step, and its own sessions in a step."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

torch.manual_seed(0)
torch.set_num_threads(1)
X = torch.randn(64, 32)
Y = torch.randint(0, 4, (64,))
CPU = [ProfilerActivity.CPU]
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def backward() -> Any:
    optimizer.zero_grad()
    return torch.nn.functional.cross_entropy(model(X), Y)


for _ in range(30):
    with record_function("epoch"):
        for _ in range(7):
            backward().backward()
            with record_function("update"):
                optimizer.step()
with profile(activities=CPU) as session, record_function("own"):
    optimizer.step()
print(sum(event.name == "own" for event in session.events()))

for _ in range(20):
    with record_function("outer"):
        loss = backward()
        with profile(activities=CPU):
            loss.backward()
        session = profile(activities=CPU)
        session.__enter__()
    optimizer.step()
    session.__exit__(None, None, None)
print(float(sum(parameter.sum() for parameter in model.parameters()).detach()))
print("COUNTS", json.dumps({"optimizer_step SGD": 231}))
