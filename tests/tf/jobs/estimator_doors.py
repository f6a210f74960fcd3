"""An estimator fed by queue threads: their Session.run calls must not count as training steps."""

import tempfile

import numpy as np
import tensorflow as tf

from facts import fact

tf1 = tf.compat.v1
ROWS = np.random.RandomState(3).normal(size=(96, 4)).astype(np.float32)
TARGETS = ROWS.sum(axis=1, keepdims=True)


def model_fn(features, labels, mode):
    weights = tf1.get_variable("weights", [4, 1], initializer=tf1.ones_initializer())
    output = tf.matmul(features["x"], weights, name="est_output")
    if mode == "infer":
        return tf1.estimator.EstimatorSpec(mode, predictions=output)
    loss = tf.reduce_mean(tf.square(output - labels - 1.0), name="est_loss")
    train_op = tf1.train.GradientDescentOptimizer(0.01).minimize(
        loss, global_step=tf1.train.get_global_step()
    )
    return tf1.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main():
    tf1.disable_eager_execution()
    with tempfile.TemporaryDirectory() as folder:
        config = tf1.estimator.RunConfig(tf_random_seed=1, model_dir=folder)
        estimator = tf1.estimator.Estimator(model_fn, config=config)
        inputs = tf1.estimator.inputs.numpy_input_fn
        estimator.train(
            inputs({"x": ROWS}, TARGETS, batch_size=8, num_epochs=None, shuffle=False), steps=150
        )
        trained = int(estimator.get_variable_value("global_step"))
        print("trained %d weights %r" % (trained, estimator.get_variable_value("weights").tolist()))
        fact("train", "session_run", "est_loss", trained)
        scores = estimator.evaluate(
            inputs({"x": ROWS}, TARGETS, batch_size=8, num_epochs=1, shuffle=False)
        )
        print("loss %r" % float(scores["loss"]))
        rows = inputs({"x": ROWS}, batch_size=8, num_epochs=1, shuffle=False)
        print(
            "predicted %r"
            % float(sum(each[0] for each in estimator.predict(rows, yield_single_examples=True)))
        )
        # Prediction runs until the queue is empty: one more call, which raises.
        fact("predict", "session_run", "est_output", len(ROWS) // 8, raised=1)


if __name__ == "__main__":
    main()
