"""Trace steps by tfprobe and by hand: sampled.py KIND ROUNDS, under `tfprobe run --every 1`.

By hand means no more than tracing the step and writing the trace to disk, which nobody can avoid. A
round is one step each: untraced and by hand with the hooks out, by tfprobe with the hooks in.
"""

import os
import sys
import tempfile

import numpy as np
import tensorflow as tf

from hooks import Hooks
from stopwatch import by_turns, mean_us, measured, median

tf1 = tf.compat.v1
ROWS = np.random.RandomState(3).normal(size=(256, 256)).astype(np.float32)
WARM_UP_ROUNDS = 10


def main():
    kind, rounds = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        plain, traced = {"session": session, "function": function}[kind](folder)
        hooks = Hooks()

        def way(step, hooked):
            def once():
                hooks.use(hooked)
                try:
                    return mean_us(step, 1)
                finally:
                    # The other ways must not run in the watch of the time after ours.
                    sys.setprofile(None)

            return once

        ways = way(plain, False), way(traced, False), way(plain, True)
        by_turns(WARM_UP_ROUNDS, *ways)
        bare, by_hand, ours = by_turns(rounds, *ways)
    trace = [second - first for first, second in zip(bare, by_hand)]
    added = [second - first for first, second in zip(by_hand, ours)]
    measured(
        bare_us=median(bare),
        by_hand_us=median(by_hand),
        ours_us=median(ours),
        trace_us=median(trace),
        added_us=median(added),
    )


def network(x):
    """Some hundred ops, a few milliseconds."""
    for layer in range(60):
        with tf.name_scope("layer%d" % layer):
            x = tf.nn.relu(tf.matmul(x, x) * 1e-3 + 0.1)
    return tf.reduce_mean(x)


def session(folder):
    tf1.disable_eager_execution()
    x = tf1.placeholder(tf.float32, [256, 256])
    fetch = network(x)
    session = tf1.Session()
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
    numbers = iter(range(10**9))

    def traced():
        metadata = tf1.RunMetadata()
        session.run(fetch, {x: ROWS}, options=options, run_metadata=metadata)
        with open(os.path.join(folder, "%d.pb" % next(numbers)), "wb") as file:
            file.write(metadata.SerializeToString())

    return lambda: session.run(fetch, {x: ROWS}), traced


def function(folder):
    step = tf.function(network)
    x = tf.constant(ROWS)
    profiler = tf.profiler.experimental

    def plain():
        return step(x).numpy()

    def traced():
        profiler.start(folder)
        step(x).numpy()
        profiler.stop()

    return plain, traced


if __name__ == "__main__":
    main()
