"""Ops of PyTorch with a single thread where there are more CPUs."""

import torch

from stopwatch import Stopwatch, arguments
from torch_models import network, rows, train_step

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
if not options.mended:
    torch.set_num_threads(1)  # planted
features, targets = rows(512, 1024)
model = network(1024)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while watch.running():
    train_step(model, optimizer, features, targets)
    watch.unit()
watch.finish()
