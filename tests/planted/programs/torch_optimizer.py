"""Hundreds of small weights, each of them updated by ops of its own."""

import torch

from stopwatch import Stopwatch, arguments, now
from torch_models import network, rows

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = rows(32, 32)
model = network(32, layers=100)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001, fused=options.mended)
while watch.running():
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(features), targets)
    loss.backward()
    begun = now()
    optimizer.step()  # planted
    watch.took(begun)
    watch.unit()
watch.finish()
