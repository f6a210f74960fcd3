"""A program that parses its data line by line in Python before its first step."""

import numpy as np
import tensorflow as tf

from data import Network
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
numbers = np.random.RandomState(1).rand(60000, 65).round(4)
READ = 4  # times each line is parsed, as of a larger file


def parse(lines):
    parsed = []
    for line in lines:
        values = [float(value) for value in line.split(",")]
        largest = max(values) or 1.0
        parsed.append([value / largest for value in values])
    return np.array(parsed, "float32")


if options.mended:
    data = (numbers / numbers.max(axis=1, keepdims=True)).astype("float32")
else:
    # Made up faster than it is parsed: a file would be there.
    lines = [",".join(map(str, row)) for row in numbers[:2000].tolist()] * 30
    begun = now()
    data = parse(lines * READ)[: len(lines)]  # planted
    watch.took(begun)
network = Network(64, 512)
train_step = tf.function(network.train)
batches = [
    (tf.constant(data[at : at + 256, :64]), tf.constant(data[at : at + 256, 64:]))
    for at in range(0, 59904, 256)
]

step = 0
while watch.running():
    features, targets = batches[step % len(batches)]
    train_step(features, targets)
    step += 1
    watch.unit()
watch.finish()
