"""A custom loop that cuts and normalises each image of a batch in Python before the step."""

import numpy as np
import tensorflow as tf

from data import Network
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
random = np.random.RandomState(1)
images = random.rand(512, 36, 36).astype("float32")
network = Network(32 * 32, 768)
train_step = tf.function(network.train)


def augmented_in_python(batch):
    cut = []
    for image in batch:
        top, left = random.randint(0, 4, size=2)
        rows = [[float(value) for value in row[left : left + 32]] for row in image[top : top + 32]]
        mean = sum(map(sum, rows)) / 1024.0
        cut.append([value - mean for row in rows for value in row])
    return np.array(cut, "float32")


def augmented(batch):
    top, left = random.randint(0, 4, size=2)
    cut = batch[:, top : top + 32, left : left + 32].reshape(len(batch), -1)
    return cut - cut.mean(axis=1, keepdims=True)


while watch.running():
    batch = images[random.randint(0, len(images), size=64)]
    begun = now()
    if options.mended:
        inputs = augmented(batch)
    else:
        inputs = augmented_in_python(batch)  # planted
    watch.took(begun)
    train_step(tf.constant(inputs), tf.zeros([64, 1]))
    watch.unit()
watch.finish()
