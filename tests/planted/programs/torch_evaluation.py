"""A loop that evaluates on all validation data at every 10th step."""

import torch

from stopwatch import Stopwatch, arguments, now
from torch_models import network, rows, train_step

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = rows(64, 256)
held_out = [rows(64, 256) for _ in range(20)]
model = network(256)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
every = 200 if options.mended else 10


def evaluate():
    model.eval()
    losses = []
    with torch.no_grad():
        for inputs, wanted in held_out:
            losses.append(torch.nn.functional.mse_loss(model(inputs), wanted).item())  # planted
    model.train()
    return sum(losses) / len(losses)


step = 0
while watch.running():
    train_step(model, optimizer, features, targets)
    step += 1
    if step % every == 0:
        begun = now()
        evaluate()
        watch.took(begun)
    watch.unit()
watch.finish()
