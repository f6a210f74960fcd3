"""An estimator that is evaluated after every twenty steps."""

import tempfile

import tensorflow as tf

from graphs import prediction, rows
from stopwatch import Stopwatch, arguments, now

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


estimator = tf.estimator.Estimator(model_fn, tempfile.mkdtemp())
steps = 1000 if options.mended else 20
while watch.running():
    estimator.train(batches, steps=steps)
    watch.unit(steps)
    begun = now()
    estimator.evaluate(batches, steps=20)  # planted
    watch.took(begun)
watch.finish()
