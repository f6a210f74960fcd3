"""The job uses PyTorch's own profiler, in each way; between, it trains."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule

torch.manual_seed(0)
torch.set_num_threads(1)
X = torch.randn(64, 32)
Y = torch.randint(0, 4, (64,))
CPU = [ProfilerActivity.CPU]
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
steps = 0


def train(times: int) -> None:
    global steps
    for _ in range(times):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(X), Y).backward()
        optimizer.step()
        steps += 1


def count(events: Any, name: str) -> int:
    return sum(event.name == name for event in events)


train(30)
found: list[int] = []
plan = schedule(wait=2, warmup=3, active=2, repeat=4)
with profile(
    activities=CPU,
    schedule=plan,
    record_shapes=True,
    with_stack=True,
    on_trace_ready=lambda session: found.append(count(session.events(), "aten::addmm")),
) as session:
    for _ in range(60):
        train(1)
        session.step()
print("scheduled", found)

train(30)
with profile(activities=CPU) as session:
    train(20)
print("plain", count(session.events(), "aten::addmm"))

train(30)
with torch.autograd.profiler.profile(use_kineto=True) as legacy:
    train(20)
print("autograd", count(legacy.function_events, "aten::addmm"))

train(30)
found = []
for step in range(42):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(X), Y)
    if step % 7 == 3:
        with profile(activities=CPU) as session:
            loss.backward()
        found.append(count(session.events(), "aten::mm"))
    else:
        loss.backward()
    optimizer.step()
    steps += 1
print("in a step", found)

train(30)
session = profile(activities=CPU, schedule=schedule(wait=0, warmup=50, active=2))
session.start()
for _ in range(30):
    train(1)
    session.step()
session.stop()
train(30)
print("ended in its warm-up")

try:
    with profile(activities=CPU) as session:
        train(1)
        raise ValueError("as planted")
except ValueError:
    pass
train(30)
print("left by an exception", count(session.events(), "aten::addmm"))

with torch.autograd.profiler.profile(enabled=False):
    train(20)
print(float(sum(parameter.sum() for parameter in model.parameters()).detach()))
print("COUNTS", json.dumps({"optimizer_step SGD": steps}))
