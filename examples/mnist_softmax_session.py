"""Softmax regression on digits in a TensorFlow 1 Session loop.

Runs on TensorFlow 1.14 and 1.15, and through tf.compat.v1 on every TensorFlow 2.
"""

import argparse

import numpy as np
import tensorflow as tf

import digits

tf1 = tf.compat.v1


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=1000, help="training steps (default: 1000)")
    arguments.add_argument(
        "--batch", type=int, default=100, help="images in a batch (default: 100)"
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
    cross_entropy = tf.reduce_mean(tf1.nn.softmax_cross_entropy_with_logits_v2(labels=y_, logits=y))
    train_step = tf1.train.GradientDescentOptimizer(0.1).minimize(cross_entropy)
    correct = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
    accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))

    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        batches = digits.batches(images, one_hot, options.batch)
        for _ in range(options.steps):
            batch_x, batch_y = next(batches)
            session.run(train_step, feed_dict={x: batch_x, y_: batch_y})
        loss, score = session.run([cross_entropy, accuracy], feed_dict={x: images, y_: one_hot})
    print("steps %d" % options.steps)
    print("loss %r" % float(loss))
    print("accuracy %r" % float(score))


if __name__ == "__main__":
    main()
