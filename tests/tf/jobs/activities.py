"""Do what is told as an activity, and print how often: FACT lines. Usage: activities.py WAY

`keras`: a fit with a checkpoint callback. `function`: a function that is traced for each number.
`session`: TensorFlow 1's Saver. `estimator`: train and evaluate. `named`: a program that names.
"""

import json
import os
import sys
import tempfile

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def fact(kind, name, count):
    print("FACT " + json.dumps({"name": "%s %s" % (kind, name), "count": count}))


def keras(folder):
    rows = np.arange(32, dtype=np.float32).reshape(8, 4) / 32
    labels = np.zeros((8, 1), np.float32)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)], name="small")
    model.compile("sgd", "mse")
    path = os.path.join(folder, "{epoch}.weights.h5")
    kept = tf.keras.callbacks.ModelCheckpoint(path, save_weights_only=True)
    model.fit(rows, labels, epochs=3, batch_size=4, verbose=0, callbacks=[kept])
    model.evaluate(rows, labels, verbose=0)
    model.predict(rows, verbose=0)
    if not tf.__version__.startswith(
        "1."
    ):  # there a model that was not built compiles itself once more
        fact("compile", "Model.compile", 1)
    fact("train", "small.fit", 1)
    fact("evaluate", "small.evaluate", 1)
    fact("predict", "small.predict", 1)
    fact("save", "Model.save_weights", 3)
    fact("callbacks", "CallbackList.on_epoch_end", 3)


def function(folder):
    @tf.function
    def retraced(number):
        return tf.zeros([2]) + number

    for number in range(4):
        for _ in range(3):
            retraced(number)
    fact("trace", "retraced", 4)
    checkpoint = tf.train.Checkpoint(weights=tf.Variable([1.0]))
    manager = tf.train.CheckpointManager(checkpoint, os.path.join(folder, "kept"), 2)
    for _ in range(3):
        manager.save()
    checkpoint.save(os.path.join(folder, "one"))
    tf.saved_model.save(checkpoint, os.path.join(folder, "model"))
    writer = tf.summary.create_file_writer(os.path.join(folder, "summaries"))
    with writer.as_default():
        tf.summary.scalar("loss", 1.0, step=0)
    writer.close()
    fact("save", "CheckpointManager.save", 3)
    fact("save", "Checkpoint.save", 1)
    fact("save", "saved_model.save", 1)
    fact("summary", "SummaryWriter.close", 1)


def session(folder):
    with tf1.Graph().as_default(), tf1.Session() as running:
        weights = tf1.Variable([1.0])
        running.run(tf1.global_variables_initializer())
        saver = tf1.train.Saver()
        for step in range(5):
            running.run(weights)
            saver.save(running, os.path.join(folder, "model"), step)
        writer = tf1.summary.FileWriter(folder)
        writer.flush()
    fact("save", "Saver.save", 5)
    fact("summary", "FileWriter.flush", 1)


def estimator(folder):
    def model_fn(features, labels, mode):
        weight = tf1.get_variable("weight", [], initializer=tf1.zeros_initializer())
        loss = tf1.reduce_mean(tf.square(features * weight - labels))
        step = tf1.train.get_or_create_global_step()
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        return tf1.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    def rows():
        return tf1.data.Dataset.from_tensors((np.ones(4, "f"), np.ones(4, "f"))).repeat(6)

    made = tf1.estimator.Estimator(model_fn, folder)
    made.train(rows)
    made.evaluate(rows)
    fact("train", "Estimator.train", 1)
    fact("evaluate", "Estimator.evaluate", 1)
    fact("build", "Estimator.model_fn", 2)
    fact("save", "Saver.save", 2)


def named(folder):
    try:
        from tfprobe import activity
    except ImportError:
        return
    for _ in range(300):
        with activity("prepare batch"):
            pass
    fact("user", "prepare batch", 300)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        globals()[sys.argv[1]](place)
    fact("import", "tensorflow", 1)
