"""An estimator that writes a checkpoint every tenth step."""

import tempfile

import tensorflow as tf

from graphs import prediction, rows
from stopwatch import Stopwatch, arguments, time_limit_hook

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


every = 2000 if options.mended else 10
config = tf.estimator.RunConfig(save_checkpoints_steps=every, keep_checkpoint_max=2)
estimator = tf.estimator.Estimator(model_fn, tempfile.mkdtemp(), config=config)
hook = time_limit_hook(watch, tf.train.SessionRunHook)
estimator.train(batches, hooks=[hook])  # planted
watch.finish()
