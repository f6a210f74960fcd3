"""A custom training loop: a `tf.function` with a GradientTape. Runs on every TensorFlow 2."""

import argparse

import tensorflow as tf

import digits


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=300, help="training steps (default: 300)")
    arguments.add_argument("--batch", type=int, default=64, help="images in a batch (default: 64)")
    options = arguments.parse_args()

    tf.random.set_seed(1)
    images, labels = digits.load()
    images = images[..., None]
    kernel = tf.Variable(tf.random.normal([3, 3, 1, 16], stddev=0.1, seed=1))
    weights = tf.Variable(tf.random.normal([14 * 14 * 16, 10], stddev=0.02, seed=2))
    bias = tf.Variable(tf.zeros([10]))
    variables = (kernel, weights, bias)

    @tf.function
    def train_step(batch_images, batch_labels):
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(tf.nn.conv2d(batch_images, kernel, strides=1, padding="SAME"))
            pooled = tf.nn.max_pool2d(hidden, 2, 2, padding="VALID")
            logits = tf.reshape(pooled, [-1, 14 * 14 * 16]) @ weights + bias
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=batch_labels, logits=logits
            )
            loss = tf.reduce_mean(losses)
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(0.1 * gradient)
        return loss

    batches = digits.batches(images, labels, options.batch)
    loss = None
    for _ in range(options.steps):
        loss = train_step(*map(tf.constant, next(batches)))
    print("steps %d" % options.steps)
    print("loss %r" % float(loss))


if __name__ == "__main__":
    main()
