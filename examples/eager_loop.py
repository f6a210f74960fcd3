"""A training step that runs op by op, because nobody made a `tf.function` of it. Runs on every
TensorFlow 2. `make demo-try` measures what that costs.
"""

import argparse

import tensorflow as tf

import digits


class Trainer:
    """A small network, and the step that updates it."""

    def __init__(self):
        sizes = (28 * 28, 64, 64, 64, 10)
        self.weights = [
            tf.Variable(tf.random.normal(pair, stddev=pair[0] ** -0.5, seed=at))
            for at, pair in enumerate(zip(sizes, sizes[1:]))
        ]
        self.biases = [tf.Variable(tf.zeros([size])) for size in sizes[1:]]
        self.optimizer = tf.keras.optimizers.Adam(1e-3)

    def step(self, images, labels):
        """Update the network by one batch; return the loss."""
        with tf.GradientTape() as tape:
            values = images
            for weights, bias in zip(self.weights, self.biases):
                values = tf.nn.relu(values) @ weights + bias
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=values)
            loss = tf.reduce_mean(losses)
        variables = self.weights + self.biases
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=5000, help="training steps (default: 5000)")
    arguments.add_argument("--batch", type=int, default=64, help="images in a batch (default: 64)")
    options = arguments.parse_args()

    tf.random.set_seed(1)
    images, labels = digits.load()
    batches = digits.batches(images.reshape(-1, 28 * 28), labels, options.batch)
    trainer = Trainer()
    loss = None
    for _ in range(options.steps):
        loss = trainer.step(*map(tf.constant, next(batches)))
    print("steps %d" % options.steps)
    print("loss %r" % float(loss))


if __name__ == "__main__":
    main()
