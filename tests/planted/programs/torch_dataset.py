"""A data set that computes each item in Python, in the process that trains."""

import torch

from stopwatch import Stopwatch, arguments
from torch_models import batches, network, rows, train_step

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
WIDTH = 256
features, targets = rows(512, WIDTH)


class Records(torch.utils.data.Dataset):
    def __init__(self):
        self.kept = {}

    def __len__(self):
        return len(features)

    def __getitem__(self, index):
        if options.mended and index in self.kept:
            return self.kept[index]
        item = decoded(index)
        self.kept[index] = item
        return item


def decoded(index):  # planted
    text = " ".join("%.4f" % value for value in features[index].tolist())
    numbers = [float(word) for word in text.split()]
    return torch.tensor(numbers), targets[index]


model = network(WIDTH, layers=8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = batches(torch.utils.data.DataLoader(Records(), batch_size=32, shuffle=True))
if options.mended:
    for _ in range(16):
        next(loader)
while watch.running():
    train_step(model, optimizer, *next(loader))
    watch.unit()
watch.finish()
