"""A small convolutional network trained with Keras `fit`. Runs on Keras 2 and Keras 3, TensorFlow
1.14 to 2.21.
"""

import argparse
import random

import numpy as np
import tensorflow as tf

import digits

layers = tf.keras.layers


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=300, help="training steps (default: 300)")
    arguments.add_argument("--batch", type=int, default=64, help="images in a batch (default: 64)")
    options = arguments.parse_args()

    random.seed(1)
    np.random.seed(1)
    getattr(tf.random, "set_seed", tf.compat.v1.set_random_seed)(1)
    images, labels = digits.load()
    images = images[..., np.newaxis]

    model = tf.keras.Sequential(
        [
            layers.Conv2D(16, 3, activation="relu", input_shape=(28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ],
        name="digits_cnn",
    )
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])

    steps_in_epoch = len(images) // options.batch
    epochs, rest = divmod(options.steps, steps_in_epoch)
    loss = None
    for epoch_steps, times in ((steps_in_epoch, epochs), (rest, 1 if rest else 0)):
        if not times:
            continue
        count = epoch_steps * options.batch
        history = model.fit(
            images[:count], labels[:count], batch_size=options.batch, epochs=times, verbose=0
        )
        loss = history.history["loss"][-1]
    print("steps %d" % options.steps)
    print("loss %r" % loss)


if __name__ == "__main__":
    main()
