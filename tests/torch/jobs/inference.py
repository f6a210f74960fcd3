"""Evaluation and inference: which calls are steps, and what a module looks like meanwhile."""

from __future__ import annotations

import copy
import gc
import io
import json
import pickle
import weakref
from typing import Any

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
X = torch.randn(64, 32)
Y = torch.randint(0, 4, (64,))


class Classifier(nn.Sequential):
    """Trained, and evaluated after each epoch."""


class Generator(nn.Sequential):
    """Never trained."""


class Scripted(nn.Sequential):
    """Compiled as TorchScript."""


class Hooked(nn.Sequential):
    """Has hooks of the program."""


def made(cls: Any) -> Any:
    return cls(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))


generator = made(Generator).eval()
total = 0.0
with torch.inference_mode():
    for _ in range(70):
        total += float(generator(X).sum())
print("generated", total)
float(generator(X).sum())  # with gradients: no step

model = made(Classifier)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    model.train()
    for _ in range(30):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X), Y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for _ in range(20):
            total += float(model(X).sum())
    with torch.no_grad():
        model[0](X)
print("evaluated", total)

print(sorted(vars(copy.copy(model))), sorted(vars(copy.deepcopy(model))))
print(sorted(vars(pickle.loads(pickle.dumps(model)))))
parts = copy.deepcopy(vars(model)), pickle.loads(pickle.dumps(vars(model)))
print([part.get("_compiled_call_impl") for part in parts])
buffer = io.BytesIO()
torch.save(model, buffer)
buffer.seek(0)
loaded = torch.load(buffer, weights_only=False)
print(torch.equal(loaded(X), model(X)), sorted(vars(loaded)), sorted(model.state_dict()))
other = made(Scripted).eval()
scripted, traced = torch.jit.script(other), torch.jit.trace(other, X)
print(torch.equal(scripted(X), traced(X)))
print([node.op for node in torch.fx.symbolic_trace(made(Classifier).eval()).graph.nodes])
replica = model._replicate_for_data_parallel()
print(sorted(set(vars(replica)) - set(vars(made(Classifier)))))

hooked = made(Hooked).eval()
seen: list[str] = []
hooked.register_forward_pre_hook(lambda *_: seen.append("before"))
hooked.register_forward_hook(lambda *_: seen.append("after"))
with torch.no_grad():
    for _ in range(12):
        hooked(X)
print(seen)
try:
    with torch.no_grad():
        hooked(X, X)
except TypeError as error:
    print("TypeError", error)

reference = weakref.ref(generator)
gc.disable()
del generator
print("freed", reference() is None)

COUNTS = {
    "forward Generator": 70,
    "forward Classifier": 60,
    "optimizer_step SGD": 90,
    "forward Hooked": 12,
}
print("COUNTS", json.dumps(COUNTS))
