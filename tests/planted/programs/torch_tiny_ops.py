"""A loss that is computed row by row in Python."""

import torch

from stopwatch import Stopwatch, arguments
from torch_models import network, rows

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = rows(128, 128)
model = network(128)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def loss_of(outputs, targets):  # planted
    if options.mended:
        return (outputs - targets).square().mean()
    losses = []
    for output, target in zip(outputs, targets):
        losses.append((output - target).square().mean())
    return torch.stack(losses).mean()


while watch.running():
    optimizer.zero_grad()
    loss_of(model(features), targets).backward()
    optimizer.step()
    watch.unit()
watch.finish()
