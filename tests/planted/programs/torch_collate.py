"""A collate function that pads each example number by number in Python."""

import random

import torch

from stopwatch import Stopwatch, arguments
from torch_models import batches, network, train_step

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
WIDTH = 256
random.seed(0)
examples = [torch.randn(random.randint(64, WIDTH)) for _ in range(512)]


def padded(batch):
    return torch.nn.utils.rnn.pad_sequence(batch, batch_first=True)


def padded_in_python(batch):  # planted
    longest = max(len(example) for example in batch)
    lines = []
    for example in batch:
        numbers = [float(number) for number in example]
        lines.append(numbers + [0.0] * (longest - len(numbers)))
    return torch.tensor(lines)


def to_width(batch):
    return torch.nn.functional.pad(batch, (0, WIDTH - batch.shape[1]))


model = network(WIDTH)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = batches(
    torch.utils.data.DataLoader(
        examples,
        batch_size=32,
        shuffle=True,
        collate_fn=padded if options.mended else padded_in_python,
    )
)
while watch.running():
    features = to_width(next(loader))
    train_step(model, optimizer, features, features)
    watch.unit()
watch.finish()
