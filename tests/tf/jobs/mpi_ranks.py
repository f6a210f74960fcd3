"""Four ranks of `mpirun` train in Sessions, and average a number with each other after each step.

A step of rank 2 takes far longer than one of the others. Started by itself it starts mpirun.
"""

import os
import socket
import subprocess
import sys
import time

import cluster

STEPS = 40
SLOW_RANK = 2
SLOW_S = 0.15
SIZE = 400

RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK", -1))
WORLD = 4
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(WORLD)]
MEETING = "meeting.port"


def main():
    if RANK < 0:
        sys.exit(subprocess.call(MPIRUN + cluster.prefix() + [sys.executable] + sys.argv))
    import tensorflow as tf

    v1 = tf.compat.v1
    v1.disable_eager_execution()
    x = tf.random.uniform([SIZE, SIZE], seed=7)
    for _ in range(5):
        x = tf.matmul(x, x) / SIZE
    if RANK == SLOW_RANK:
        # Not by computing: who gets how much of a shared machine would decide who is late.
        x = v1.py_func(slow, [x], x.dtype, stateful=True)
    train = tf.reduce_mean(x)
    one = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    mean = mean_of_rank_0() if RANK == 0 else mean_of_others()
    with v1.Session(config=one) as session:
        total = 0.0
        for step in range(STEPS):
            session.run(train)
            total += mean(step * RANK)
    cluster.tell("total of rank %d" % RANK, total)


def slow(value):
    time.sleep(SLOW_S)
    return value


def mean_of_rank_0():
    """Return a function that gives the mean of all to all."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(WORLD)
    with open(MEETING + ".tmp", "w") as file:
        file.write(str(listening.getsockname()[1]))
    os.rename(MEETING + ".tmp", MEETING)
    others = [listening.accept()[0].makefile("rw") for _ in range(WORLD - 1)]

    def mean(value):
        found = (value + sum(float(other.readline()) for other in others)) / WORLD
        for other in others:
            other.write("%r\n" % found)
            other.flush()
        return found

    return mean


def mean_of_others():
    while not os.path.exists(MEETING):
        time.sleep(0.05)
    with open(MEETING) as file:
        meeting = socket.create_connection(("127.0.0.1", int(file.read()))).makefile("rw")

    def mean(value):
        meeting.write("%r\n" % float(value))
        meeting.flush()
        return float(meeting.readline())

    return mean


if __name__ == "__main__":
    main()
