"""What the programs of PyTorch share: a network, its data, and one step of training."""

import torch


def network(width, layers=3):
    """Return a network of dense layers, as wide as its input and output."""
    torch.manual_seed(0)
    parts = []
    for _ in range(layers):
        parts += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts)


def rows(count, width):
    """Return as many features and targets."""
    torch.manual_seed(1)
    return torch.randn(count, width), torch.randn(count, width)


def train_step(model, optimizer, features, targets):
    """Run one step and return its loss."""
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(features), targets)
    loss.backward()
    optimizer.step()
    return loss


def batches(loader):
    """Give batches of a loader without end."""
    while True:
        yield from loader
