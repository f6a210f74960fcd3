"""An estimator with a hook that checks every weight in Python after each step."""

import math
import tempfile

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


def batches():
    data = tf.data.Dataset.from_tensor_slices((features, targets))
    return data.batch(64).cache().repeat().prefetch(4)


class CheckWeights(tf.train.SessionRunHook):
    def before_run(self, run_context):
        return tf.train.SessionRunArgs(tf.trainable_variables()[-1])

    def after_run(self, run_context, run_values):  # planted
        if options.mended:
            return
        begun = now()
        for _ in range(20):
            assert all(math.isfinite(float(value)) for value in run_values.results)
        watch.took(begun)


estimator = tf.estimator.Estimator(model_fn, tempfile.mkdtemp())
hook = time_limit_hook(watch, tf.train.SessionRunHook)
estimator.train(batches, hooks=[CheckWeights(), hook])
watch.finish()
