"""Run a small workload in a forked child for each fault of the agent; compare what it printed.

Prints the workload's own lines, then, under a faulty agent, one line for each fault that made a
difference. JAX starts its threads with its first computation, so only children compute.
"""

import os

os.environ["KERAS_BACKEND"] = "jax"

import copy
import sys
import tempfile

import jax
import jax.numpy as jnp
import keras
import numpy as np

sys.path.append(os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "support"))
import forked_faults


def workload():
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        compiled(folder)
        trained()


def compiled(folder):
    step = jax.jit(lambda x, scale: (x * scale).sum())
    for rows in (4, 4, 4, 3, 4, 4):
        value = step(np.ones(rows, np.float32), 2.0)
    print("step", float(value))
    print("copy", float(copy.copy(step)(np.ones(2, np.float32), 1.0)))
    executable = step.lower(np.ones(2, np.float32), 1.0).compile()
    print("executable", [float(executable(np.ones(2, np.float32), 1.0)) for _ in range(3)])
    print("shape", jax.eval_shape(step, jnp.ones(2), 1.0))
    print("gradient", np.asarray(jax.grad(step)(jnp.ones(2), 3.0)).tolist())

    @jax.jit
    def failing(_):
        raise ValueError("while tracing")

    try:
        failing(1)
    except ValueError as error:
        print("failing", error)
    jax.profiler.start_trace(os.path.join(folder, "own"))
    step(np.ones(4, np.float32), 2.0).block_until_ready()
    jax.profiler.stop_trace()
    print("own trace", os.path.isdir(os.path.join(folder, "own")))


def trained():
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile("sgd", "mse")
    inputs, labels = np.ones((6, 4), np.float32), np.zeros((6, 1), np.float32)
    history = model.fit(inputs, labels, batch_size=2, verbose=0, shuffle=False)
    print("fit", history.history["loss"])
    print("on batch", float(np.ravel(model.train_on_batch(inputs, labels))[0]))
    print("predict", model.predict(inputs, batch_size=3, verbose=0).ravel().tolist())


if __name__ == "__main__":
    # What is no framework's fails in Sessions of TensorFlow.
    forked_faults.run(workload, prefix="frameworks.")
