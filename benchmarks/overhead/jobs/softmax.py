"""The MNIST softmax Session loop, alone or with one of TensorFlow 1's own ways to profile it."""

import argparse
import contextlib
import os
import sys
import tempfile

import numpy as np
import tensorflow as tf

from stopwatch import clock, measured

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../examples"))
import digits

tf1 = tf.compat.v1


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, default=20000)
    arguments.add_argument(
        "--tool", choices=["none", "add_step", "profile_context"], default="none"
    )
    options = arguments.parse_args()

    tf1.disable_eager_execution()
    tf1.set_random_seed(1)
    images, labels = digits.load()
    images = images.reshape(len(images), 784)
    one_hot = np.eye(10, dtype=np.float32)[labels]
    x = tf1.placeholder(tf.float32, [None, 784])
    weights = tf1.Variable(tf.zeros([784, 10]))
    bias = tf1.Variable(tf.zeros([10]))
    y = tf.matmul(x, weights) + bias
    y_ = tf1.placeholder(tf.float32, [None, 10])
    cross_entropy = tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=y)
    loss = tf.reduce_mean(cross_entropy)
    train_step = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)

    with contextlib.ExitStack() as stack:
        if options.tool == "profile_context":
            # As TensorFlow's own guide has it: trace a range of steps and dump at its end.
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            context = tf.contrib.tfprof.ProfileContext
            stack.enter_context(context(folder, trace_steps=range(10, 20), dump_steps=[20]))
        session = stack.enter_context(tf1.Session())
        session.run(tf1.global_variables_initializer())
        batches = digits.batches(images, one_hot, 100)
        run = by_hand(session) if options.tool == "add_step" else session.run
        for _ in range(20):
            batch = next(batches)
            session.run(train_step, {x: batch[0], y_: batch[1]})
        started = clock()
        for _ in range(options.steps):
            batch = next(batches)
            run(train_step, {x: batch[0], y_: batch[1]})
        seconds = clock() - started
        measured(loop_s=seconds, step_us=seconds / options.steps * 1e6)
        print("loss %r" % float(session.run(loss, {x: images, y_: one_hot})))


def by_hand(session):
    """Return a `run` that traces each step in full and adds it to a Profiler."""
    profiler = tf1.profiler.Profiler(session.graph)
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
    steps = iter(range(10**9))

    def run(fetches, feeds):
        metadata = tf1.RunMetadata()
        result = session.run(fetches, feeds, options=options, run_metadata=metadata)
        profiler.add_step(next(steps), metadata)
        return result

    return run


if __name__ == "__main__":
    main()
