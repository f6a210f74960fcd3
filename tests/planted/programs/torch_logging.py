"""A loop that writes a line of its log through to the disk before each update."""

import json
import os
import tempfile

import torch

from stopwatch import Stopwatch, arguments, now
from torch_models import network, rows

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = rows(64, 128)
model = network(128)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
metrics = tempfile.NamedTemporaryFile("w", suffix=".jsonl")


def log(step, loss):  # planted
    metrics.write(json.dumps({"step": step, "loss": loss}) + "\n")
    if not options.mended:
        metrics.flush()
        begun = now()
        os.fsync(metrics.fileno())
        watch.took(begun)


step = 0
while watch.running():
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(features), targets)
    loss.backward()
    log(step, loss.item())
    optimizer.step()
    step += 1
    watch.unit()
watch.finish()
