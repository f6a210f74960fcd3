"""Profile some steps of one's own: every traced step of the recording must make way."""

import glob
import json
import tempfile

import jax
import jax.numpy as jnp


@jax.jit
def step(x):
    return jnp.tanh(x @ x)


x = jnp.ones((64, 64))
for _ in range(20):
    x = step(x)
for _ in range(2):
    with tempfile.TemporaryDirectory() as folder:
        jax.profiler.start_trace(folder)
        for _ in range(10):
            x = step(x)
        x.block_until_ready()
        jax.profiler.stop_trace()
        print("files", len(glob.glob(folder + "/**/*.xplane.pb", recursive=True)))
        with jax.profiler.trace(folder):
            step(x).block_until_ready()
for _ in range(20):
    x = step(x)
print("COUNTS", json.dumps({"step": 62}))
