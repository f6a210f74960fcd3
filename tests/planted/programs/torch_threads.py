"""Ops of PyTorch with many more threads than there are CPUs."""

import os

import torch

from stopwatch import Stopwatch, arguments
from torch_models import network, rows, train_step

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
torch.set_num_threads(len(os.sched_getaffinity(0)) if options.mended else 32)  # planted
features, targets = rows(256, 512)
model = network(512)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while watch.running():
    train_step(model, optimizer, features, targets)
    watch.unit()
watch.finish()
