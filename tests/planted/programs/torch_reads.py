"""A loop that reads the norms and extremes of all weights at each step."""

import torch

from stopwatch import Stopwatch, arguments, now
from torch_models import network, rows

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = rows(64, 128)
model = network(128, layers=12)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
history = {}


def note(model):  # planted
    for name, weight in model.named_parameters():
        read = weight.norm().item(), weight.min().item(), weight.max().item()
        history[name] = read


while watch.running():
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(features), targets)
    loss.backward()
    if not options.mended:
        begun = now()
        note(model)
        watch.took(begun)
    optimizer.step()
    watch.unit()
watch.finish()
