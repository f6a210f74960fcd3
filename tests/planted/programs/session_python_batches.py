"""A Session loop that turns words into numbers in Python for each batch."""

import numpy as np
import tensorflow as tf

from graphs import started, training
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
random = np.random.RandomState(1)
vocabulary = {"word%d" % number: number for number in range(5000)}
sentences = [" ".join("word%d" % n for n in random.randint(0, 5000, 200)) for _ in range(512)]
fed = tf.placeholder(tf.int32, [64, 200])
table = tf.get_variable("table", [5000, 64])
vectors = tf.reduce_mean(tf.gather(table, fed), axis=1)
train, loss = training(vectors, tf.zeros([64, 1]), 64, 512)
session = started()


def numbers_of(sentences):
    return np.array([[vocabulary[word] for word in line.split(" ")] for line in sentences])


encoded = numbers_of(sentences)
step = 0
while watch.running():
    first = 64 * (step % 8)
    begun = now()
    if options.mended:
        batch = encoded[first : first + 64]
    else:
        batch = numbers_of(sentences[first : first + 64])  # planted
    watch.took(begun)
    session.run(train, {fed: batch})
    step += 1
    watch.unit()
watch.finish()
