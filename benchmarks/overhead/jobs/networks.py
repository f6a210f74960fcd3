"""Whole training jobs with steps of 5 ms and more: networks.py JOB --steps N."""

import argparse
import os
import sys
import tempfile

import numpy as np
import tensorflow as tf

from stopwatch import clock, measured

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../examples"))
import digits

layers = tf.keras.layers
BATCH = 64


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("job", choices=["cnn", "resnet", "loop"])
    arguments.add_argument("--steps", type=int, required=True)
    arguments.add_argument("--tensorboard", action="store_true")
    options = arguments.parse_args()
    tf.random.set_seed(1)
    images, labels = digits.load()
    images = images[..., np.newaxis]
    if options.job == "loop":
        custom_loop(images, labels, options.steps)
    else:
        model = {"cnn": cnn, "resnet": resnet}[options.job]()
        fit(model, images, labels, options)


def fit(model, images, labels, options):
    model.compile(optimizer="sgd", loss="sparse_categorical_crossentropy")
    data = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().batch(BATCH)
    with tempfile.TemporaryDirectory() as folder:
        callbacks = []
        if options.tensorboard:
            board = tf.keras.callbacks.TensorBoard(folder, profile_batch=(20, 40))
            callbacks.append(board)
        model.fit(data, steps_per_epoch=5, verbose=0)
        started = clock()
        history = model.fit(data, steps_per_epoch=options.steps, verbose=0, callbacks=callbacks)
        seconds = clock() - started
    measured(loop_s=seconds, step_us=seconds / options.steps * 1e6)
    print("loss %r" % history.history["loss"])


def cnn():
    return tf.keras.Sequential(
        [
            layers.Conv2D(16, 3, activation="relu", input_shape=(28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(10, activation="softmax"),
        ]
    )


def resnet():
    """A residual network of 20 layers, as for CIFAR-10."""
    inputs = tf.keras.Input((28, 28, 1))
    x = layers.Conv2D(16, 3, padding="same", use_bias=False)(inputs)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    for filters, stride in ((16, 1), (32, 2), (64, 2)):
        for block in range(3):
            x = _residual(x, filters, stride if block == 0 else 1)
    x = layers.GlobalAveragePooling2D()(x)
    return tf.keras.Model(inputs, layers.Dense(10, activation="softmax")(x))


def _residual(x, filters, stride):
    shortcut = x
    if stride > 1 or x.shape[-1] != filters:
        shortcut = layers.Conv2D(filters, 1, strides=stride, use_bias=False)(x)
    x = layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(layers.Add()([x, shortcut]))


def custom_loop(images, labels, steps):
    model = cnn()
    optimizer = tf.keras.optimizers.SGD(0.01)
    losses = tf.keras.losses.SparseCategoricalCrossentropy()

    @tf.function
    def train_step(batch, targets):
        with tf.GradientTape() as tape:
            loss = losses(targets, model(batch, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    batches = digits.batches(images, labels, BATCH)
    for _ in range(5):
        loss = train_step(*map(tf.constant, next(batches)))
    started = clock()
    for _ in range(steps):
        loss = train_step(*map(tf.constant, next(batches)))
    loss = float(loss)
    seconds = clock() - started
    measured(loop_s=seconds, step_us=seconds / steps * 1e6)
    print("loss %r" % loss)


if __name__ == "__main__":
    main()
