"""Run a workload in a forked child for each fault the agent can have; compare what it printed.

Usage: faults.py session|eager. Prints the workload's own lines, then, under a faulty agent, one
line for each fault that made a difference.
"""

import copy
import os
import sys
import tempfile

import numpy as np
import tensorflow as tf

sys.path.append(os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "support"))
import forked_faults

tf1 = tf.compat.v1
VERSION = tuple(int(part) for part in tf.__version__.split(".")[:2])
PROFILER = getattr(getattr(tf, "profiler", None), "experimental", None)


def session_workload():
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 4])
        weights = tf1.Variable(tf.ones([4, 1]), name="weights")
        loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) - 1.0))
        train = tf1.train.GradientDescentOptimizer(0.01).minimize(loss)
        init = tf1.global_variables_initializer()
        saver = tf1.train.Saver()
    rows = np.arange(8, dtype=np.float32).reshape(2, 4) / 8
    with tf1.Session(graph=graph) as session:
        session.run(init)
        for _ in range(6):
            _, value = session.run([train, loss], {x: rows})
        print("session %r" % float(value))
        with tempfile.TemporaryDirectory() as folder:
            print("saved %r" % os.path.basename(saver.save(session, os.path.join(folder, "model"))))
        metadata = tf1.RunMetadata()
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        session.run(train, {x: rows}, options, metadata)
        print("own trace %r" % (len(metadata.step_stats.dev_stats) > 0))
        step = session.make_callable(loss, [x])
        print("callable %r" % float([step(rows) for _ in range(4)][-1]))
        try:
            session.run(loss, {x: rows[:, :3]})
        except ValueError as error:
            print("raised %s" % type(error).__name__)


def eager_workload():
    weights = tf.Variable(tf.ones([4, 1]))
    optimizer = tf1.train.GradientDescentOptimizer(0.01)
    rows = tf.reshape(tf.range(8, dtype=tf.float32), [2, 4]) / 8.0

    def eager():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(rows, weights) - 1.0))
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
        return loss

    step = tf.function(lambda: tf.reduce_sum(tf.matmul(rows, weights)))
    print("eager %r" % float([eager() for _ in range(4)][-1]))
    print("function %r" % float([step() for _ in range(4)][-1]))
    concrete = step.get_concrete_function()
    print("concrete %r" % float([concrete() for _ in range(3)][-1]))
    if PROFILER is not None:
        with tempfile.TemporaryDirectory() as folder:
            PROFILER.start(folder)
            step()
            PROFILER.stop()
            print("profiled %r" % ("plugins" in os.listdir(folder)))
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile("sgd", "mse")
    inputs, labels = np.ones((6, 4), np.float32), np.zeros((6, 1), np.float32)
    history = model.fit(inputs, labels, batch_size=2, verbose=0, shuffle=False)
    print("fit %r" % history.history["loss"])
    print("on batch %r" % float(np.ravel(model.train_on_batch(inputs, labels))[0]))
    print("copied %r" % (copy.copy(model.fit) is not None))


if __name__ == "__main__":
    if sys.argv[1] == "session":
        forked_faults.run(session_workload)
    else:
        # What is no framework's, and Sessions enter as well, fails there.
        forked_faults.run(eager_workload, prefix="frameworks.", elsewhere=session_workload)
