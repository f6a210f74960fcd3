"""A `tf.estimator` with a custom model function. Runs where estimators exist: TensorFlow 1.14 to
2.15.
"""

import argparse
import sys
import tempfile

import tensorflow as tf

import digits

tf1 = tf.compat.v1


def model_fn(features, labels, mode):
    with tf1.variable_scope("softmax"):
        weights = tf1.get_variable("weights", [784, 10], initializer=tf1.zeros_initializer())
        bias = tf1.get_variable("bias", [10], initializer=tf1.zeros_initializer())
    logits = tf.matmul(features["image"], weights) + bias
    loss = tf1.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(
        loss, global_step=tf1.train.get_global_step()
    )
    accuracy = tf1.metrics.accuracy(labels=labels, predictions=tf.argmax(logits, 1))
    return tf1.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops={"accuracy": accuracy}
    )


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=300, help="training steps (default: 300)")
    arguments.add_argument("--batch", type=int, default=64, help="images in a batch (default: 64)")
    options = arguments.parse_args()
    try:
        estimators = tf1.estimator
        estimators.Estimator  # noqa: B018  # TensorFlow loads the module on access
    except (AttributeError, ImportError):
        print("TensorFlow %s has no estimators" % tf.__version__)
        sys.exit(0)

    images, labels = digits.load()
    images = images.reshape(len(images), 784)

    def training_data():
        data = tf1.data.Dataset.from_tensor_slices(({"image": images}, labels))
        return data.shuffle(len(images), seed=1).repeat().batch(options.batch)

    def all_data():
        return tf1.data.Dataset.from_tensor_slices(({"image": images}, labels)).batch(options.batch)

    with tempfile.TemporaryDirectory() as folder:
        config = estimators.RunConfig(tf_random_seed=1, model_dir=folder)
        estimator = estimators.Estimator(model_fn, config=config)
        estimator.train(training_data, steps=options.steps)
        scores = estimator.evaluate(all_data)
    print("steps %d" % options.steps)
    print("loss %r" % float(scores["loss"]))
    print("accuracy %r" % float(scores["accuracy"]))


if __name__ == "__main__":
    main()
