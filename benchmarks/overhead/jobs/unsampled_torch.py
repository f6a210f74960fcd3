"""Time a small training step of PyTorch: unsampled_torch.py ROUNDS, recorded.

A round is a block of steps without the recording's hooks around `Optimizer.step` and one with them.
"""

import sys

import torch
from torch import nn
from torch.optim import optimizer as optimizers

from stopwatch import by_turns, mean_us, measured, median

BLOCK = 50
WARM_UP_ROUNDS = 20
HOOKS = optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks


def main():
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    features, targets = torch.randn(8, 8), torch.randn(8, 8)
    ours = [dict(hooks) for hooks in HOOKS]
    if not all(ours):
        raise SystemExit("nothing is recorded here: run this under `tfprobe run`")

    def step():
        optimizer.zero_grad()
        nn.functional.mse_loss(model(features), targets).backward()
        optimizer.step()

    def timed(registered):
        def block():
            for hooks, wanted in zip(HOOKS, registered):
                hooks.clear()
                hooks.update(wanted)
            return mean_us(step, BLOCK)

        return block

    bare, hooked = timed([{}, {}]), timed(ours)
    by_turns(WARM_UP_ROUNDS, bare, hooked)
    plain, recorded = by_turns(int(sys.argv[1]), bare, hooked)
    added = [second - first for first, second in zip(plain, recorded)]
    measured(bare_us=median(plain), hooked_us=median(recorded), added_us=median(added))


main()
