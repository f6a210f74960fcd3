"""A Session loop that notes how long each of its steps took, beside what recording says of them."""

import argparse
import json
import sys
import time

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, default=12000)
    steps = arguments.parse_args().steps

    tf1.disable_eager_execution()
    random = np.random.RandomState(0)
    images = random.rand(2000, 784).astype(np.float32)
    labels = np.eye(10, dtype=np.float32)[random.randint(0, 10, 2000)]
    x = tf1.placeholder(tf.float32, [None, 784])
    y = tf1.placeholder(tf.float32, [None, 10])
    hidden = x
    for width in (784, 64, 64):
        weights = tf1.Variable(random.rand(width, 64).astype(np.float32) * 0.05)
        hidden = tf.nn.relu(tf.matmul(hidden, weights))
    logits = tf.matmul(hidden, tf1.Variable(random.rand(64, 10).astype(np.float32) * 0.05))
    losses = tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits)
    train_step = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(losses))
    one_thread = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    with tf1.Session(config=one_thread) as session:
        session.run(tf1.global_variables_initializer())
        durations_ns = []
        for step in range(steps):
            first = step * 100 % 1900
            feeds = {x: images[first : first + 100], y: labels[first : first + 100]}
            began_ns = time.perf_counter_ns()
            session.run(train_step, feeds)
            durations_ns.append(time.perf_counter_ns() - began_ns)
    sys.stdout.write("STEPS %s\n" % json.dumps(durations_ns))


if __name__ == "__main__":
    main()
