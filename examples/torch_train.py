"""A small convolutional network trained with PyTorch: a DataLoader, a module and Adam in a plain
loop, and the accuracy on images that it has not seen. Runs on PyTorch 2.1 and newer.
"""

import argparse

import numpy as np
import torch

import digits


class Net(torch.nn.Module):
    """The names of its modules are names of layers in `tfprobe scope --by-layer`."""

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.pool = torch.nn.MaxPool2d(2)
        self.hidden = torch.nn.Linear(7 * 7 * 32, 64)
        self.head = torch.nn.Linear(64, 10)

    def forward(self, images):
        images = self.pool(torch.relu(self.conv1(images)))
        images = self.pool(torch.relu(self.conv2(images)))
        return self.head(torch.relu(self.hidden(images.flatten(1))))


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=300, help="training steps (default: 300)")
    arguments.add_argument("--batch", type=int, default=64, help="images in a batch (default: 64)")
    options = arguments.parse_args()

    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    training, unseen = datasets()
    batches = endless(torch.utils.data.DataLoader(training, options.batch, shuffle=True))
    model = Net().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss = None
    for _ in range(options.steps):
        images, labels = next(batches)
        chances = model(images.to(device))
        loss = torch.nn.functional.cross_entropy(chances, labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("steps %d" % options.steps)
    print("loss %r" % loss.item())
    print("accuracy %.3f" % accuracy(model, device, unseen, options.batch))


def datasets():
    """Return four fifths of the digits to train with, and the rest."""
    images, labels = digits.load()
    images = torch.from_numpy(images[:, np.newaxis])
    labels = torch.from_numpy(labels.astype(np.int64))
    count = len(images) * 4 // 5
    return (
        torch.utils.data.TensorDataset(images[:count], labels[:count]),
        torch.utils.data.TensorDataset(images[count:], labels[count:]),
    )


def endless(batches):
    while True:
        yield from batches


def accuracy(model, device, dataset, size):
    """Return which part of a dataset the model gets right."""
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in torch.utils.data.DataLoader(dataset, size):
            right += int((model(images.to(device)).argmax(1) == labels.to(device)).sum())
    return right / len(dataset)


if __name__ == "__main__":
    main()
