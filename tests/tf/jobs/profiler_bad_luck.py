"""Everything a user may do with TensorFlow 2's own profiler while training. One process."""

import glob
import os
import sys
import tempfile

import numpy as np
import tensorflow as tf

profiler = tf.profiler.experimental
X = np.random.RandomState(5).normal(size=(160, 4)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


def main():
    tf.random.set_seed(1)
    weights = tf.Variable(tf.ones([4, 1]))
    steps_taken = tf.Variable(0, dtype=tf.int64)
    x = tf.constant(X[:32])

    @tf.function
    def train_step(rows):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(rows, weights) - 3.0))
        weights.assign_sub(0.01 * tape.gradient(loss, weights))
        steps_taken.assign_add(1)
        return loss

    def train(steps):
        loss = None
        for _ in range(steps):
            loss = train_step(x)
        return float(loss), int(steps_taken)

    say("before", lambda: train(15))
    say("profiler over the loop", lambda: profiled(lambda: train(15)))
    say("after", lambda: train(15))
    say("profiler started in a loop", lambda: started_in_the_loop(lambda: train(5)))
    say("with Profile", lambda: with_profile(lambda: train(5)))
    say("twice", lambda: twice(lambda: train(5)))
    say("profiler over a session", lambda: profiled(session_loop))
    say("session", session_loop)
    say("profiler started in a step", lambda: started_in_a_step(x))
    say("after", lambda: train(15))
    say("fit with profiler in a callback", fit_with_profiler)
    say("tensorboard callback", fit_with_tensorboard)
    say("after", lambda: train(15))


def say(name, action):
    """Print what an action returned, or the type of what it raised."""
    try:
        print("%s: %r" % (name, action()))
    except Exception as error:
        print("%s: %s %s" % (name, type(error).__name__, str(error).split("\n")[0][:80]))
    sys.stdout.flush()


def captures(folder):
    return len(glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True))


def profiled(action):
    with tempfile.TemporaryDirectory() as folder:
        profiler.start(folder)
        result = action()
        profiler.stop()
        return result, captures(folder)


def started_in_the_loop(action):
    with tempfile.TemporaryDirectory() as folder:
        results = [action()]
        profiler.start(folder)
        results.append(action())
        profiler.stop()
        results.append(action())
        return results, captures(folder)


def with_profile(action):
    with tempfile.TemporaryDirectory() as folder:
        with profiler.Profile(folder):
            result = action()
        return result, captures(folder)


def twice(action):
    with tempfile.TemporaryDirectory() as folder:
        profiler.start(folder)
        try:
            profiler.start(folder)
        except tf.errors.AlreadyExistsError as error:
            raised = type(error).__name__
        result = action()
        profiler.stop()
        return result, raised


def session_loop():
    tf1 = tf.compat.v1
    with tf.Graph().as_default():
        counter = tf1.get_variable("counter", [], initializer=tf1.zeros_initializer())
        step = tf1.assign_add(counter, 1.0)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            return [float(session.run(step)) for _ in range(12)][-1]


def started_in_a_step(x):
    with tempfile.TemporaryDirectory() as folder:
        said = []

        def control(step):
            if int(step) == 5:
                profiler.start(folder)
                said.append("started")
            if int(step) == 8:
                profiler.stop()
                said.append("stopped")
            return step

        counter = tf.Variable(0, dtype=tf.int64)

        @tf.function
        def controlled_step(rows):
            tf.py_function(control, [counter.assign_add(1)], tf.int64)
            return tf.reduce_sum(rows)

        for _ in range(12):
            controlled_step(x)
        return said, int(counter), captures(folder)


def fit_with_profiler():
    with tempfile.TemporaryDirectory() as folder:

        class Profile(tf.keras.callbacks.Callback):
            def on_train_batch_begin(self, batch, logs=None):
                if batch == 3:
                    profiler.start(folder)

            def on_train_batch_end(self, batch, logs=None):
                if batch == 6:
                    profiler.stop()

        return fit([Profile()]), captures(folder)


def fit_with_tensorboard():
    with tempfile.TemporaryDirectory() as folder:
        callback = tf.keras.callbacks.TensorBoard(folder, profile_batch=(3, 6))
        return fit([callback]), captures(folder)


def fit(callbacks):
    first = tf.keras.layers.Dense(8, input_dim=4, kernel_initializer=tf.keras.initializers.Ones())
    last = tf.keras.layers.Dense(1, kernel_initializer=tf.keras.initializers.Ones())
    model = tf.keras.Sequential([first, last])
    model.compile(optimizer="sgd", loss="mse")
    history = model.fit(X, Y, batch_size=16, verbose=0, shuffle=False, callbacks=callbacks)
    return history.history["loss"]


if __name__ == "__main__":
    main()
