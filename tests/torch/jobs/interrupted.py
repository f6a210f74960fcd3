"""A signal handler raises at any moment of training; the program goes on and ends."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
X = torch.randn(64, 32)
Y = torch.randint(0, 4, (64,))
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))


class Stopped(Exception):
    """Raised by the handler."""


def handler(*_: Any) -> None:
    raise Stopped


def train(optimizer: Any, times: int) -> None:
    for _ in range(times):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(X), Y).backward()
        optimizer.step()


class Interrupted(torch.optim.SGD):
    """Its steps are not counted here."""


train(torch.optim.SGD(model.parameters(), 0.1), 10)
signal.signal(signal.SIGALRM, handler)
optimizer = Interrupted(model.parameters(), 0.1)
rounds, end = 0, time.monotonic() + 3
while time.monotonic() < end:
    rounds += 1
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005 + rounds % 37 * 0.00013)
        train(optimizer, 1000)
    except Stopped:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    torch.set_grad_enabled(True)
print(rounds > 10)
train(torch.optim.Adam(model.parameters()), 30)
print("COUNTS", json.dumps({"optimizer_step SGD": 10, "optimizer_step Adam": 30}))
