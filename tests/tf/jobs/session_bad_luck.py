"""What a user may do with a Session besides training: trace, copy, pickle, mock, fail."""

import copy
import inspect
import pickle
import sys
import threading
from unittest import mock

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
ROWS = np.random.RandomState(3).normal(size=(8, 4)).astype(np.float32)


class Loud(tf1.Session):
    """A user's own Session."""

    def run(self, fetches, *args, **kwargs):
        return super().run(fetches, *args, **kwargs)


def main():
    tf1.disable_eager_execution()
    x = tf1.placeholder(tf.float32, [None, 4], name="x")
    counter = tf1.get_variable(
        "counter", [], initializer=tf1.zeros_initializer(), use_resource=True
    )
    step = tf.identity(tf1.assign_add(counter, tf.reduce_sum(x) * 0.0 + 1.0), name="counted_step")
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())

        def count():
            return int(session.run(counter))

        def train(steps, **more):
            for _ in range(steps):
                session.run(step, {x: ROWS}, **more)

        say("users_own_trace", lambda: users_own_trace(session, step, x))
        say("untraced options", lambda: untraced_options(session, step, x))
        say("counter", count)
        say("four threads", lambda: in_threads(4, lambda: train(40)))
        say("counter", count)
        say("wrong feed", lambda: session.run(step, {x: np.ones((2, 3))}))
        say("unknown fetch", lambda: session.run("no_such_tensor:0"))
        say("missing feed", lambda: session.run(step))
        say("counter", count)
        say("copy", lambda: copy.copy(session.run)(step, {x: ROWS}))
        say("deepcopy", lambda: type(copy.deepcopy(session.run)))
        say("pickle", lambda: type(pickle.loads(pickle.dumps(session.run))))
        say("pickle of the class's", lambda: pickle.loads(pickle.dumps(tf1.Session.run)).__name__)
        say("signature", lambda: inspect.signature(session.run))
        say(
            "names",
            lambda: (session.run.__name__, session.run.__qualname__, session.run.__module__),
        )
        say("is a method", lambda: (inspect.ismethod(session.run), session.run.__self__ is session))
        say("doc", lambda: len(inspect.getdoc(session.run)))
        say("mocked clocks", lambda: with_mocked_clocks(lambda: train(20)))
        say("mocked open", lambda: with_mocked_open(lambda: train(20)))
        say("counter", count)
        say("recursion limit", lambda: at_the_recursion_limit(lambda: train(1)))
        say("counter", count)
        say("partial run", lambda: partial_run(session))
    say("closed", lambda: session.run(step, {x: ROWS}))
    with Loud() as session:
        session.run(tf1.global_variables_initializer())
        say("own class", lambda: [session.run(step, feed_dict={x: ROWS}) for _ in range(10)][-1])
        say("as with", lambda: session.run([step], {x: ROWS}))


def say(name, action):
    """Print what an action returned, or the type and first line of what it raised."""
    try:
        print("%s: %r" % (name, action()))
    except Exception as error:
        print("%s: %s %s" % (name, type(error).__name__, str(error).split("\n")[0][:80]))
    sys.stdout.flush()


def users_own_trace(session, step, x):
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE, timeout_in_ms=60000)
    options.output_partition_graphs = True
    before = options.SerializeToString()
    metadata = tf1.RunMetadata()
    for _ in range(10):
        session.run(step, {x: ROWS}, options, metadata)
    devices = len(metadata.step_stats.dev_stats) > 0
    return devices, len(metadata.partition_graphs) > 0, options.SerializeToString() == before


def untraced_options(session, step, x):
    options = tf1.RunOptions(timeout_in_ms=60000, output_partition_graphs=True)
    before = options.SerializeToString()
    metadata = tf1.RunMetadata()
    for _ in range(10):
        session.run(step, {x: ROWS}, options=options, run_metadata=metadata)
    return len(metadata.partition_graphs) > 0, options.SerializeToString() == before


def in_threads(count, action):
    raised = []

    def guarded():
        try:
            action()
        except Exception as error:
            raised.append(type(error).__name__)

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def with_mocked_clocks(action):
    clocks = ("time.time", "time.monotonic", "time.perf_counter")
    if sys.version_info >= (3, 7):
        clocks += ("time.time_ns", "time.monotonic_ns", "time.perf_counter_ns")
    mocks = [mock.patch(clock, return_value=1) for clock in clocks]
    mocked = [each.start() for each in mocks]
    try:
        action()
        return [each.call_count for each in mocked]
    finally:
        for each in mocks:
            each.stop()


def with_mocked_open(action):
    names = ("builtins.open", "os.open", "os.replace", "os.rename", "os.makedirs", "json.dumps")
    mocks = [mock.patch(name, side_effect=AssertionError("opened")) for name in names]
    mocked = [each.start() for each in mocks]
    try:
        action()
        return [each.call_count for each in mocked]
    finally:
        for each in mocks:
            each.stop()


def at_the_recursion_limit(action):
    def deeper(depth):
        return action() if depth == 0 else deeper(depth - 1)

    # Enough below the limit for TensorFlow alone, whatever wraps it.
    return deeper(sys.getrecursionlimit() - 200)


def partial_run(session):
    a = tf1.placeholder(tf.float32, [])
    b = tf1.placeholder(tf.float32, [])
    first, second = a + 1.0, (a + 1.0) * b
    handle = session.partial_run_setup([first, second], [a, b])
    return [
        float(session.partial_run(handle, first, {a: 1.0})),
        float(session.partial_run(handle, second, {b: 3.0})),
    ]


if __name__ == "__main__":
    main()
