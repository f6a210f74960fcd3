"""Anomaly detection that was left on."""

import torch

from stopwatch import Stopwatch, arguments
from torch_models import network, rows, train_step

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = rows(64, 128)
model = network(128, layers=12)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.autograd.set_detect_anomaly(not options.mended)  # planted
while watch.running():
    train_step(model, optimizer, features, targets)
    watch.unit()
watch.finish()
