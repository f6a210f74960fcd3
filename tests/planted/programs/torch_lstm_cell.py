"""An LSTM that Python runs cell by cell, where one call runs the sequence."""

import torch

from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
torch.manual_seed(0)
sequence = torch.randn(64, 32, 32)
targets = torch.randn(32, 64)
cell = torch.nn.LSTMCell(32, 64)
layer = torch.nn.LSTM(32, 64)
optimizer = torch.optim.SGD((layer if options.mended else cell).parameters(), lr=0.01)


def last_state(sequence):  # planted
    if options.mended:
        return layer(sequence)[0][-1]
    state = torch.zeros(32, 64), torch.zeros(32, 64)
    for item in sequence:
        state = cell(item, state)
    return state[0]


while watch.running():
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(last_state(sequence), targets).backward()
    optimizer.step()
    watch.unit()
watch.finish()
