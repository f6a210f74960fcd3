"""A custom loop over sentences: each batch is as long as its longest sentence, never alike."""

import numpy as np
import tensorflow as tf

from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
random = np.random.RandomState(1)
table = tf.Variable(tf.random.normal([1000, 64]))
mixing = tf.Variable(tf.random.normal([64, 64], stddev=0.1))


@tf.function
def train_step(words):
    with tf.GradientTape() as tape:
        vectors = tf.gather(table, words)
        for _ in range(6):
            vectors = tf.tanh(tf.einsum("bwv,vu->bwu", vectors, mixing))
        loss = tf.reduce_mean(tf.square(tf.reduce_max(vectors, axis=1)))
    mixing.assign_sub(0.01 * tape.gradient(loss, mixing))
    return loss


def padded(sentences):
    longest = max(map(len, sentences))
    if options.mended:
        longest = 600
    words = np.zeros((len(sentences), longest), "int64")
    for row, sentence in enumerate(sentences):
        words[row, : len(sentence)] = sentence
    return words


while watch.running():
    lengths = random.randint(4, random.randint(20, 600), size=4)
    batch = padded([random.randint(0, 1000, size=length) for length in lengths])
    train_step(tf.constant(batch))  # planted
    watch.unit()
watch.finish()
