"""A Session loop that ends, forks or spawns in a way of its own: endings.py CASE."""

import multiprocessing
import os
import signal
import sys

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def train(steps, after_each=int):
    """Train a little model of this process's own; return its loss."""
    rows = np.random.RandomState(3).normal(size=(8, 4)).astype(np.float32)
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [None, 4])
        weights = tf1.get_variable("weights", [4, 1], initializer=tf1.ones_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) - 3.0))
        step = tf1.train.GradientDescentOptimizer(0.01).minimize(loss, name="main_step")
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            for index in range(steps):
                session.run(step, {x: rows})
                after_each(index)
            return float(session.run(loss, {x: rows}))


def say(text):
    print(text)
    sys.stdout.flush()


def returns():
    say("loss %r" % train(50))


def raises():
    say("loss %r" % train(50))
    raise ValueError("the job's own")


def exits():
    say("loss %r" % train(50))
    sys.exit(3)


def os_exits():
    say("loss %r" % train(50))
    os._exit(7)


def os_exits_in_a_step():
    train(1000, lambda step: os._exit(9) if step == 49 else None)


def kills_itself():
    train(1000, lambda step: os.kill(os.getpid(), signal.SIGKILL) if step == 49 else None)


def endless():
    train(10**9, lambda step: say("training") if step == 49 else None)


def endless_and_handles():
    def handle(number, frame):
        say("handled %d" % number)
        sys.exit(5)

    signal.signal(signal.SIGTERM, handle)
    endless()


def forks_for_numpy():
    """Loaders forked in mid-training, which never touch TensorFlow."""
    context = multiprocessing.get_context("fork")
    results = []

    def fork(step):
        if step == 19:
            with context.Pool(2) as pool:
                results.extend(pool.map(numpy_work, [1, 2, 3]))

    say("loss %r" % train(60, fork))
    say("children %r" % results)


def numpy_work(seed):
    return float(np.random.RandomState(seed).normal(size=1000).sum())


def forks_for_tensorflow():
    """Workers forked before the parent has started a session, each of which trains."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=trains_in_child, args=(queue, steps)) for steps in (30, 40)]
    for worker in workers:
        worker.start()
    results = sorted(queue.get() for _ in workers)
    for worker in workers:
        worker.join()
    say("children %r %r" % (results, [worker.exitcode for worker in workers]))
    say("loss %r" % train(20))


def trains_in_child(queue, steps):
    queue.put((steps, train(steps)))


def raw_forks():
    """os.fork in mid-training; the child leaves by os._exit."""

    def fork(step):
        if step == 19:
            child = os.fork()
            if child == 0:
                os._exit(4)
            say("child ended with %d" % (os.waitpid(child, 0)[1] >> 8))

    say("loss %r" % train(60, fork))


def spawns():
    """A spawn pool whose workers train."""
    with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=1) as pool:
        say("children %r" % pool.map(train, [30, 40], chunksize=1))
    say("loss %r" % train(20))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
