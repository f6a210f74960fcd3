"""Train a network in PyTorch and time the loop: networks_torch.py NETWORK --steps N [--profiler].

`--profiler` traces steps 20 to 29 with torch.profiler and a schedule, as one would by hand.
"""

import argparse
import contextlib
import tempfile

import torch
from torch import nn

from scheduled import scheduled
from stopwatch import clock, measured

THREADS = 2


class Block(nn.Module):
    """A residual block of ResNet-18."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inner, outer, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outer),
            nn.ReLU(),
            nn.Conv2d(outer, outer, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outer),
        )
        same = stride == 1 and inner == outer
        self.way = nn.Identity() if same else nn.Conv2d(inner, outer, 1, stride, bias=False)

    def forward(self, x):
        return nn.functional.relu(self.body(x) + self.way(x))


class Resnet(nn.Module):
    """ResNet-18 for images of 32 x 32."""

    def __init__(self):
        super().__init__()
        sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
        sizes += [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
        blocks = [Block(*size) for size in sizes]
        self.net = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1), *blocks, nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(512, 10)

    def forward(self, x):
        return self.head(self.net(x).flatten(1))


class Transformer(nn.Module):
    """Two layers over 64 tokens."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(256, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(128, 10)

    def forward(self, tokens):
        return self.head(self.layers(self.embed(tokens)).mean(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("network", choices=["resnet18", "torch_transformer"])
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--profiler", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(THREADS)
    if options.network == "resnet18":
        model, data = Resnet(), torch.randn(16, 8, 3, 32, 32)
    else:
        model, data = Transformer(), torch.randint(0, 256, (16, 8, 64))
    targets = torch.randint(0, 10, (16, 8))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def step(number):
        optimizer.zero_grad()
        logits = model(data[number % 16])
        loss = nn.functional.cross_entropy(logits, targets[number % 16])
        loss.backward()
        optimizer.step()
        return loss

    for number in range(3):
        step(number)
    with contextlib.ExitStack() as stack:
        session = None
        if options.profiler:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            session = stack.enter_context(scheduled(folder))
        started = clock()
        for number in range(options.steps):
            loss = step(number)
            if session is not None:
                session.step()
        seconds = clock() - started
    measured(loop_s=seconds, step_us=seconds / options.steps * 1e6)
    print("loss %r" % float(loss))


if __name__ == "__main__":
    main()
