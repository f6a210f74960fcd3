"""An estimator whose input function makes each row in Python."""

import tempfile

import numpy as np
import tensorflow as tf

from graphs import prediction, rows
from stopwatch import Stopwatch, arguments, now, time_limit_hook

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = rows(2048, 256)


def model_fn(features, labels, mode):
    loss = tf.losses.mean_squared_error(labels, prediction(features, 256, 512))
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)


def scaled(row):
    largest = max(float(value) for value in row)
    return [float(value) / largest for value in row]


def made_batches():
    while True:
        for first in range(0, len(features), 64):
            rows = features[first : first + 64]
            begun = now()
            if not options.mended:
                rows = np.array([scaled(row) for row in rows], "float32")  # planted
            watch.took(begun)
            yield rows, targets[first : first + 64]


def input_fn():
    shapes = [64, 256], [64, 1]
    data = tf.data.Dataset.from_generator(made_batches, ("float32", "float32"), shapes)
    return data.prefetch(4) if options.mended else data


estimator = tf.estimator.Estimator(model_fn, tempfile.mkdtemp())
hook = time_limit_hook(watch, tf.train.SessionRunHook)
estimator.train(input_fn, hooks=[hook])
watch.finish()
