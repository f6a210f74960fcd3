"""Run a small workload in a forked child for each fault of the agent; compare what it printed.

Prints the workload's own lines, then, under a faulty agent, one line for each fault that made a
difference. JAX starts its threads with its first computation, so only children compute.
"""

import os

os.environ["KERAS_BACKEND"] = "jax"

import copy
import pickle
import sys
import tempfile

import jax
import jax.numpy as jnp
import keras
import numpy as np

# Children that run at a time.
AT_ONCE = 2


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


def in_child(fault):
    """Return (exit status, what was printed, functions of the agent entered) of a forked child."""
    return outcome(*start(fault))


def start(fault):
    """Return (pid, pipe) of a forked child that runs the workload with this fault."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reader)
            faults = sys.modules.get("tfprobe_agent.faults")
            if faults is not None:
                faults.armed = fault
                faults.entered.clear()
            sys.stdout = os.fdopen(os.dup(writer), "w", 1)
            workload()
            sys.stdout.flush()
            entered = dict(faults.entered) if faults is not None else {}
            os.write(writer, b"\0" + pickle.dumps(sorted(entered)))
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    return pid, reader


def outcome(pid, reader):
    """Wait for a child and return what is left of it."""
    with os.fdopen(reader, "rb") as pipe:
        printed, _, entered = pipe.read().partition(b"\0")
    _, status = os.waitpid(pid, 0)
    return status, printed.decode(), pickle.loads(entered) if entered else []


def main():
    status, printed, entered = in_child(None)
    print(printed, end="")
    print("status", status)
    if not entered:
        return
    # What is no framework's fails in the jobs of TensorFlow.
    entered = [name for name in entered if name.startswith("frameworks.")]
    print("FAULTS", len(entered), file=sys.stderr)
    running = []
    for fault in entered + [None] * AT_ONCE:
        if fault is not None:
            running.append((fault, start(fault)))
        if running and (fault is None or len(running) >= AT_ONCE):
            fault, child = running.pop(0)
            found = outcome(*child)
            if found[:2] != (status, printed):
                print("FAULT", fault, "status", found[0], "printed", repr(found[1]))


if __name__ == "__main__":
    main()
