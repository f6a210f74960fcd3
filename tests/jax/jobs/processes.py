"""Step in a pool of threads, in spawned and forked processes, and on after an interrupt."""

import json
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np

COUNTS = {}
THREADS, STEPS = 4, 25


def ran(name, times=1):
    COUNTS[name] = COUNTS.get(name, 0) + times


@jax.jit
def step(x):
    return jnp.tanh(x @ x) + 1


@jax.jit
def interrupted(x):
    signal.raise_signal(signal.SIGINT)
    return x


def steps(seed):
    x = jnp.full((8, 8), seed / 10.0)
    for _ in range(STEPS):
        x = step(x)
    return np.asarray(x).tobytes().hex()[:64]


def spawned(seed, pickled, answers):
    loaded = pickle.loads(pickled)
    answers.put((seed, steps(seed), np.asarray(loaded(jnp.ones((2, 2)))).tobytes().hex()))


def main():
    with ThreadPoolExecutor(THREADS) as pool:
        for answer in pool.map(steps, range(THREADS)):
            print("thread", answer)
    ran("step", THREADS * STEPS)
    print("threads", threading.active_count(), sorted(t.name for t in threading.enumerate()))

    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    workers = [
        context.Process(target=spawned, args=(seed, cloudpickle.dumps(step), answers))
        for seed in range(2)
    ]
    for worker in workers:
        worker.start()
    for answer in sorted(answers.get() for _ in workers):
        print("spawned", *answer)
    for worker in workers:
        worker.join()
        print("ended", worker.exitcode)
    ran("step", 2 * STEPS)

    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", "os.fork")
        warnings.filterwarnings("ignore", "This process")
        child = os.fork()
        if child == 0:
            os._exit(7)
    print("forked", os.WEXITSTATUS(os.waitpid(child, 0)[1]))
    print([(str(one.message)[:40], one.filename == __file__, one.lineno) for one in caught])

    for _ in range(2):
        try:
            interrupted(jnp.ones(2))
        except KeyboardInterrupt as error:
            print("interrupted", type(error).__name__, error.args)
        print("on", steps(3))
        ran("step", STEPS)
    ran("interrupted", 0)
    print("COUNTS", json.dumps(COUNTS), flush=True)
    if sys.version_info >= (3, 11):
        interrupted(jnp.ones(3))


if __name__ == "__main__":
    main()
