"""A loop that prints all gradients before each update."""

import os

import torch

from stopwatch import Stopwatch, arguments, now
from torch_models import network, rows

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = rows(64, 128)
model = network(128)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
log = open(os.devnull, "w")


def show(model):  # planted
    for name, weight in model.named_parameters():
        print(name, weight.grad, file=log)


while watch.running():
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(features), targets)
    loss.backward()
    if not options.mended:
        begun = now()
        show(model)
        watch.took(begun)
    optimizer.step()
    watch.unit()
watch.finish()
