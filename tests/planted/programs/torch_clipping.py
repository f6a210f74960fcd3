"""Gradients that are clipped by a Python loop, which reads a norm for each weight."""

import torch

from stopwatch import Stopwatch, arguments, now
from torch_models import network, rows

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = rows(32, 64)
model = network(64, layers=40)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def clip(weights, most):  # planted
    for weight in weights:
        norm = weight.grad.norm().item()
        if norm > most:
            weight.grad.mul_(most / norm)


while watch.running():
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(features), targets)
    loss.backward()
    begun = now()
    if options.mended:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    else:
        clip(model.parameters(), 0.01)
    watch.took(begun)
    optimizer.step()
    watch.unit()
watch.finish()
