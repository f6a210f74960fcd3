"""Trains while somebody else may use the profiler: a daemon or Nsight by a variable, or Proton."""

from __future__ import annotations

import json
import sys
import types
from typing import Any

import torch

if "proton" in sys.argv:  # as `import triton.profiler` leaves it; a CPU's PyTorch has no Triton
    sys.modules["triton.profiler"] = types.ModuleType("triton.profiler")
STEPS = 150
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(32, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
x: Any = torch.randn(64, 32)
for _ in range(STEPS):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
print(model.weight.detach().numpy().tobytes().hex())
print("COUNTS", json.dumps({"optimizer_step SGD": STEPS}))
