"""Every way through a TensorFlow 1 Session, each with a count of its own."""

import threading

import numpy as np
import tensorflow as tf

from facts import fact

tf1 = tf.compat.v1
ROWS = np.random.RandomState(3).normal(size=(32, 4)).astype(np.float32)


def main():
    tf1.disable_eager_execution()
    tf1.set_random_seed(7)
    x = tf1.placeholder(tf.float32, [None, 4], name="x")
    weights = tf1.get_variable("weights", [4, 1], initializer=tf1.ones_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) - 3.0), name="loss")
    steps_taken = tf1.train.get_or_create_global_step()
    optimizer = tf1.train.GradientDescentOptimizer(0.01)
    main_step = optimizer.minimize(loss, global_step=steps_taken, name="main_step")
    monitored_step = tf1.group(tf1.assign_add(steps_taken, 1), name="monitored_step")
    thread_op = tf.multiply(x, 2.0, name="thread_op")
    fed_callable = tf.reduce_sum(x, name="fed_callable")
    total = tf.reduce_sum(x, name="total")
    bare_callable = tf.identity(tf1.assign_add(weights, tf.zeros([4, 1])), name="bare_callable")
    options_callable = tf.reduce_max(x, name="options_callable")
    element = tf1.data.make_one_shot_iterator(tf1.data.Dataset.range(57)).get_next()
    element = tf.identity(element, name="element")

    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())

        calls = 0
        for _ in range(120):
            session.run(main_step, feed_dict={x: ROWS})
            calls += 1
        fact("main_loop", "session_run", "main_step", calls)
        print("steps %d loss %r" % (session.run(steps_taken), session.run(loss, {x: ROWS})))

        calls_in_thread = {}

        def work(name, times):
            for _ in range(times):
                session.run(thread_op, feed_dict={x: ROWS})
                calls_in_thread[name] = calls_in_thread.get(name, 0) + 1

        threads = [
            threading.Thread(target=work, args=(name, times))
            for name, times in (("a", 37), ("b", 23))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        fact("threads", "session_run", "thread_op", list(calls_in_thread.values()))

        call = session.make_callable(fed_callable, feed_list=[x])
        print("sum %r" % sum(float(call(ROWS)) for _ in range(19)))
        # make_callable with feeds goes through Session.run in some versions, so either door is
        # right, once.
        fact("callable_with_feeds", ["callable", "session_run"], "fed_callable", 19)

        call = session.make_callable(bare_callable)
        print("weights %r" % [call().tolist() for _ in range(14)][-1])
        fact("callable_without_feeds", ["callable", "session_run"], "bare_callable", 14)

        call = session._make_callable_from_options(_callable_options(options_callable, x))
        print("max %r" % [float(call(ROWS)[0]) for _ in range(16)][-1])
        fact("callable_from_options", "callable", "options_callable", 16)

        received = []
        try:
            while True:
                received.append(int(session.run(element)))
        except tf.errors.OutOfRangeError:
            pass
        print("received %d sum %d" % (len(received), sum(received)))
        fact("until_out_of_range", "session_run", "element", len(received), raised=1)

        fetched = session.run({"a": [loss, total], "b": (steps_taken,)}, {x: ROWS})
        print("nested fetches %r %r" % (float(fetched["a"][0]), int(fetched["b"][0])))

    calls = 0
    with tf1.train.MonitoredTrainingSession(
        hooks=[tf1.train.StopAtStepHook(num_steps=41)]
    ) as session:
        while not session.should_stop():
            session.run(monitored_step)
            calls += 1
    print("monitored %d" % calls)
    fact("monitored_session", "session_run", "monitored_step", calls)


def _callable_options(fetch, feed):
    from tensorflow.core.protobuf import config_pb2

    return config_pb2.CallableOptions(feed=[feed.name], fetch=[fetch.name])


if __name__ == "__main__":
    main()
