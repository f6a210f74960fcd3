"""Custom training loops: tf.function in all its forms and eager loops, each with a count of its
own.
"""

import os
import tempfile
import threading

import numpy as np
import tensorflow as tf

from facts import absent, fact

VERSION = tuple(int(part) for part in tf.__version__.split(".")[:2])
ROWS = np.random.RandomState(3).normal(size=(32, 4)).astype(np.float32)


def main():
    if VERSION < (2, 0):
        tf.compat.v1.enable_v2_behavior()
    weights = tf.Variable(tf.ones([4, 1]))
    steps_taken = tf.Variable(0, dtype=tf.int64)
    x = tf.constant(ROWS)

    @tf.function
    def loop_step(rows):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(rows, weights) - 3.0))
        weights.assign_sub(0.01 * tape.gradient(loss, weights))
        steps_taken.assign_add(1)
        return loss

    for _ in range(60):
        loss = loop_step(x)
    print("loop %r, %d steps" % (float(loss), int(steps_taken)))
    fact("function_loop", "function", "loop_step", int(steps_taken))

    @tf.function
    def inner_step(rows):
        steps_taken.assign_add(1)
        return tf.reduce_sum(rows)

    @tf.function
    def outer_step(rows):
        return inner_step(rows) + inner_step(rows * 2.0) + inner_step(rows * 3.0)

    before = int(steps_taken)
    for _ in range(25):
        total = outer_step(x)
    print("nested %r, %d inner" % (float(total), int(steps_taken) - before))
    fact("nested_outer", "function", "outer_step", (int(steps_taken) - before) // 3)
    fact("nested_inner", "function", "inner_step", [])

    @tf.function
    def concrete_step(rows):
        steps_taken.assign_add(1)
        return tf.reduce_max(rows)

    concrete = concrete_step.get_concrete_function(tf.TensorSpec([32, 4], tf.float32))
    before = int(steps_taken)
    for _ in range(17):
        top = concrete(x)
    print("concrete %r" % float(top))
    fact("concrete_function", "function", "concrete_step", int(steps_taken) - before)

    @tf.function
    def threaded_step(rows):
        return tf.reduce_mean(rows)

    threaded_step(x)
    calls_in_thread = {}

    def work(name, times):
        for _ in range(times):
            threaded_step(x)
            calls_in_thread[name] = calls_in_thread.get(name, 0) + 1

    threads = [
        threading.Thread(target=work, args=(name, times)) for name, times in (("a", 13), ("b", 19))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fact("function_in_threads", "function", "threaded_step", [1] + list(calls_in_thread.values()))

    class Module(tf.Module):
        @tf.function
        def method_step(self, rows):
            return tf.reduce_min(rows)

    module = Module()
    print("method %r" % [float(module.method_step(x)) for _ in range(12)][-1])
    fact("method", "function", "method_step", 12)

    @tf.function
    def raising_step(rows, limit):
        with tf.control_dependencies([tf.debugging.assert_less(tf.size(rows), limit)]):
            return tf.reduce_sum(rows)

    completed = 0
    for index in range(10):
        try:
            raising_step(x, tf.constant(1000 if index != 5 else 1))
            completed += 1
        except tf.errors.InvalidArgumentError as error:
            print("raised %s" % type(error).__name__)
    fact("raising_function", "function", "raising_step", completed, raised=1)

    _optimizers(x)
    by_hand = threading.Thread(target=_by_hand, args=(x,))
    by_hand.start()
    by_hand.join()
    _saved_model(x)


def _by_hand(x):
    """Train without an optimizer; what is in the graph of another gradient ends no step."""
    weights = tf.Variable(tf.ones([4, 1]))
    steps_taken = tf.Variable(0, dtype=tf.int64)
    for _ in range(13):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) - 3.0))
            penalty = tf.reduce_sum(tf.square(tape.gradient(loss, weights)))
            total = loss + 0.001 * penalty
        weights.assign_sub(0.01 * outer.gradient(total, weights))
        steps_taken.assign_add(1)
    print("by hand %r" % float(total))
    fact("eager_by_hand", "eager", "GradientTape", int(steps_taken.numpy()))


def _optimizers(x):
    weights = tf.Variable(tf.ones([4, 1]))
    optimizer = tf.keras.optimizers.SGD(0.01)

    for _ in range(31):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) - 3.0))
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
    print("eager %r" % float(loss))
    fact("eager_loop", "eager", "SGD", int(optimizer.iterations.numpy()))

    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.01)
    calls = 0
    for _ in range(22):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) - 3.0))
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
        calls += 1
    print("eager v1 %r" % float(loss))
    fact("eager_loop_v1_optimizer", "eager", "GradientDescentOptimizer", calls)

    if VERSION < (2, 0):
        for name in ("optimizer_in_function", "no_eager_in_function"):
            absent(name, "Keras optimizers of TensorFlow 1 make variables at the first call")
        return
    optimizer = tf.keras.optimizers.Adam(0.01)

    @tf.function
    def optimized_step(rows):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(rows, weights) - 3.0))
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
        return loss

    for _ in range(18):
        loss = optimized_step(x)
    print("optimized %r" % float(loss))
    fact("optimizer_in_function", "function", "optimized_step", int(optimizer.iterations.numpy()))
    fact("no_eager_in_function", "eager", "Adam", [])


def _saved_model(x):
    class Served(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])
        def served_step(self, rows):
            return tf.reduce_sum(rows)

    with tempfile.TemporaryDirectory() as folder:
        tf.compat.v2.saved_model.save(Served(), os.path.join(folder, "model"))
        restored = tf.compat.v2.saved_model.load(os.path.join(folder, "model"))
        print("restored %r" % [float(restored.served_step(x)) for _ in range(8)][-1])
    # TensorFlow does not restore the name of a function.
    fact("restored_function", "function", ["served_step", "restored_function"], 8)


if __name__ == "__main__":
    main()
