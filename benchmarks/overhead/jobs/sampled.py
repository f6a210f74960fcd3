"""Trace each step, by tfprobe or by hand with TensorFlow's own means: sampled.py KIND [--by-hand].

By hand means no more than tracing the step and writing the trace to disk, which nobody can avoid.
"""

import argparse
import os
import tempfile

import numpy as np
import tensorflow as tf

from stopwatch import clock, measured

tf1 = tf.compat.v1
ROWS = np.random.RandomState(3).normal(size=(256, 256)).astype(np.float32)
WARM_UP = 20


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("kind", choices=["session", "function"])
    arguments.add_argument("--steps", type=int, default=200)
    arguments.add_argument("--by-hand", action="store_true")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        prepare = {"session": session, "function": function}[options.kind]
        plain, traced = prepare(folder)
        step = traced if options.by_hand else plain
        for _ in range(WARM_UP):
            step()
        times = []
        for _ in range(options.steps):
            started = clock()
            step()
            times.append((clock() - started) * 1e6)
    times.sort()
    measured(step_us=times[len(times) // 2])


def network(x):
    """Some hundred ops, a few milliseconds."""
    for layer in range(60):
        with tf.name_scope("layer%d" % layer):
            x = tf.nn.relu(tf.matmul(x, x) * 1e-3 + 0.1)
    return tf.reduce_mean(x)


def session(folder):
    tf1.disable_eager_execution()
    x = tf1.placeholder(tf.float32, [256, 256])
    fetch = network(x)
    session = tf1.Session()
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
    numbers = iter(range(10**9))

    def traced():
        metadata = tf1.RunMetadata()
        session.run(fetch, {x: ROWS}, options=options, run_metadata=metadata)
        with open(os.path.join(folder, "%d.pb" % next(numbers)), "wb") as file:
            file.write(metadata.SerializeToString())

    return lambda: session.run(fetch, {x: ROWS}), traced


def function(folder):
    step = tf.function(network)
    x = tf.constant(ROWS)
    profiler = tf.profiler.experimental

    def plain():
        return step(x).numpy()

    def traced():
        profiler.start(folder)
        step(x).numpy()
        profiler.stop()

    return plain, traced


if __name__ == "__main__":
    main()
