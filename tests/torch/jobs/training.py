"""Training loops of each form: a digest of the weights that each ends with, and its steps."""

from __future__ import annotations

import hashlib
import json
import threading
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
X = torch.randn(64, 32)
Y = torch.randint(0, 4, (64,))
COUNTS: dict[str, int] = {}


class Plain(torch.optim.SGD):
    """Named for its loop."""


class Accumulated(torch.optim.AdamW):
    """Steps after four batches."""


class Pair(torch.optim.Adam):
    """Two of them step in turn."""


class Closed(torch.optim.LBFGS):
    """Computes gradients inside its step."""


class Scaled(torch.optim.SGD):
    """Some of its steps are skipped."""


class Derived(torch.optim.SGD):
    """Its step calls another step."""

    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


class Failing(torch.optim.SGD):
    """Every seventh step raises."""

    calls = 0

    def step(self, closure: Any = None) -> Any:
        self.calls += 1
        if self.calls % 7 == 0:
            raise ValueError("as planted")
        return super().step(closure)


class Taught(torch.optim.SGD):
    """Learns from a module in evaluation mode."""


class Loaded(torch.optim.SGD):
    """Its batches come from other processes."""


class Threaded(torch.optim.SGD):
    """Steps in several threads."""


def net() -> Any:
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))


def loss(model: Any, x: Any = X, y: Any = Y) -> Any:
    return nn.functional.cross_entropy(model(x), y)


def digest(*models: Any) -> str:
    values = [p.detach().numpy().tobytes() for model in models for p in model.parameters()]
    return hashlib.sha256(b"".join(values)).hexdigest()[:16]


def show(optimizer: Any, steps: int, *models: Any) -> None:
    name = optimizer if isinstance(optimizer, str) else type(optimizer).__name__
    COUNTS[f"optimizer_step {name}"] = steps
    print(name, steps, digest(*models))


def update(model: Any, optimizer: Any, x: Any = X, y: Any = Y) -> None:
    optimizer.zero_grad()
    loss(model, x, y).backward()
    optimizer.step()


model = net()
optimizer: Any = Plain(model.parameters(), 0.1)
for _ in range(60):
    update(model, optimizer)
show(optimizer, 60, model)

model = net()
optimizer = Accumulated(model.parameters())
for batch in range(160):
    (loss(model) / 4).backward()
    if batch % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
show(optimizer, 40, model)

first, second = net(), net()
optimizers = Pair(first.parameters()), Pair(second.parameters())
for _ in range(50):
    update(first, optimizers[0])
    update(second, optimizers[1])
show("Pair", 50, first, second)
show("Pair 2", 50, first, second)

model = net()
optimizer = Closed(model.parameters(), max_iter=4)


def closure() -> Any:
    optimizer.zero_grad()
    value = loss(model)
    value.backward()
    return value


for _ in range(25):
    optimizer.step(closure)
show(optimizer, 25, model)

model = net()
optimizer = Scaled(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(60):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = nn.functional.cross_entropy(model(X).float(), Y)
    scaler.scale(value if step % 10 else value * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
show(optimizer, 60, model)

model = net()
optimizer = Derived(model.parameters(), 0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
for _ in range(60):
    update(model, optimizer)
    schedule.step()
show(optimizer, 60, model)

model = net()
optimizer = Failing(model.parameters(), 0.1)
failures = 0
for _ in range(60):
    try:
        update(model, optimizer)
    except ValueError:
        failures += 1
show(optimizer, 60 - failures, model)

teacher, model = net().eval(), net()
optimizer = Taught(model.parameters(), 0.1)
for _ in range(60):
    with torch.no_grad():
        target = teacher(X)
    optimizer.zero_grad()
    (model(X) - target).square().mean().backward()
    optimizer.step()
show(optimizer, 60, model)

model = net()
optimizer = Loaded(model.parameters(), 0.1)
data = TensorDataset(X.repeat(8, 1), Y.repeat(8))
steps = 0
for _ in range(3):
    for x, y in DataLoader(data, batch_size=16, num_workers=2):
        update(model, optimizer, x, y)
        steps += 1
show(optimizer, steps, model)


def trained(model: Any) -> None:
    optimizer = Threaded(model.parameters(), 0.1)
    for _ in range(50):
        update(model, optimizer)


models = [net() for _ in range(3)]
threads = [threading.Thread(target=trained, args=(model,)) for model in models]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
show("Threaded", 150, *models)

print("threads", threading.active_count())
print("COUNTS", json.dumps(COUNTS))
