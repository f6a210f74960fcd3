"""Time a call of a compiled function of JAX: unsampled_jax.py ROUNDS, recorded.

A round is a block of calls of what stands for the function and one of the function itself. Their
results are waited for outside the clock: how long XLA computes is no matter of the call.
"""

import sys

import jax
import jax.numpy as jnp

from stopwatch import by_turns, mean_us, measured, median

BLOCK = 100
WARM_UP_ROUNDS = 20


def main():
    x, y = jnp.ones(4), jnp.zeros(4)
    recorded = jax.jit(lambda x, y: (x + y, x * y))
    try:
        bare = recorded._tfprobe_function
    except AttributeError:
        raise SystemExit("nothing is recorded here: run this under `tfprobe run`")

    def timed(function):
        def block():
            taken_us = mean_us(lambda: function(x, y), BLOCK)
            jax.block_until_ready(function(x, y))
            return taken_us

        return block

    by_turns(WARM_UP_ROUNDS, timed(bare), timed(recorded))
    plain, hooked = by_turns(int(sys.argv[1]), timed(bare), timed(recorded))
    added = [second - first for first, second in zip(plain, hooked)]
    measured(bare_us=median(plain), hooked_us=median(hooked), added_us=median(added))


main()
