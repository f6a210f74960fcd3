"""Fit one small model after another, each by the name of the cause that makes it wait for input."""

import os
import time

import numpy as np
import tensorflow as tf

# What is slow takes some 50 ms a step, that a step which waits for a core does not look slower; and
# in several calls, of which most lie inside a traced step.
STEPS = 24
BATCH = 4
WIDTH = 16


def elements():
    return tf.data.Dataset.from_tensor_slices(np.ones([512, WIDTH], np.float32)).repeat()


def sleeping(seconds):
    def function(value):
        def sleep(each):
            time.sleep(seconds)
            return each

        same = tf.numpy_function(sleep, [value], tf.float32)
        same.set_shape(value.shape)
        return same

    return function


def multiplying(value):
    product = tf.ones([300, 300]) * tf.reduce_sum(value)
    for _ in range(30):
        product = tf.matmul(product, tf.ones([300, 300])) * 1e-3
    return value + 0.0 * tf.reduce_sum(product)


def generator(seconds, shape):
    def make():
        while True:
            time.sleep(seconds)
            yield np.ones(shape, np.float32)

    return tf.data.Dataset.from_generator(make, tf.float32, shape)


def slow_map():
    return elements().map(sleeping(0.0125)).batch(BATCH).prefetch(1)


def slow_map_of_batches():
    return elements().batch(BATCH).map(sleeping(0.05)).prefetch(1)


def slow_graph_map():
    return elements().map(multiplying).batch(BATCH).prefetch(1)


def slow_generator():
    return generator(0.0125, [WIDTH]).batch(BATCH).prefetch(1)


def slow_source():
    path = os.path.join(os.getcwd(), "records.gz")
    options = tf.io.TFRecordOptions(compression_type="GZIP")
    with tf.io.TFRecordWriter(path, options) as writer:
        for _ in range(8):
            writer.write(bytes(range(256)) * 2**15)
    records = tf.data.TFRecordDataset(path, "GZIP").repeat()
    return records.map(lambda _: tf.ones([WIDTH])).batch(BATCH).prefetch(1)


def no_prefetch():
    return elements().batch(BATCH).map(sleeping(0.05))


def tiny_elements():
    many = elements().shuffle(64).batch(16384)
    return many.map(lambda each: each[:BATCH]).prefetch(1)


def slow_files():
    def read(number):
        return elements().take(64).map(sleeping(0.0125))

    return (
        tf.data.Dataset.range(8).repeat().interleave(read, cycle_length=4).batch(BATCH).prefetch(1)
    )


def cached():
    made = generator(0.005, [WIDTH]).take(16)
    return made.cache().repeat().batch(BATCH).prefetch(2)


def keeps_up():
    return elements().map(sleeping(0.0001)).batch(BATCH).prefetch(8)


def main():
    for cause in CAUSES:
        # Next to nothing a step; where the pipeline is to keep up, so long that a wait for a core
        # is a small part, on a machine that runs other tests beside.
        widths = [2048] * 20 + [WIDTH] if cause in (cached, keeps_up) else [WIDTH]
        layers = [tf.keras.layers.Dense(width) for width in widths]
        model = tf.keras.Sequential(layers, name=cause.__name__)
        model.compile("sgd", "mse")
        pairs = cause().map(lambda each: (each, each))
        model.fit(pairs, epochs=1, steps_per_epoch=STEPS, verbose=0)


CAUSES = (
    slow_map,
    slow_map_of_batches,
    slow_graph_map,
    slow_generator,
    slow_source,
    no_prefetch,
    tiny_elements,
    slow_files,
    cached,
    keeps_up,
)


if __name__ == "__main__":
    main()
