"""A loop that saves the model and its optimizer at every 5th step."""

import os
import tempfile

import torch

from stopwatch import Stopwatch, arguments, now
from torch_models import network, rows, train_step

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = rows(64, 512)
model = network(512)
optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=True)
folder = tempfile.TemporaryDirectory()
every = 1000 if options.mended else 5


def save(step):
    begun = now()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, os.path.join(folder.name, "last.pt"))  # planted
    watch.took(begun)


step = 0
while watch.running():
    train_step(model, optimizer, features, targets)
    step += 1
    if step % every == 0:
        save(step)
    watch.unit()
watch.finish()
