"""Loops with a planted cost, in JAX: each prints its results and writes what is true of it.

What is printed is the same in every run. What is true is known by construction, or measured by the
program's own clock between two moments at which the device had nothing left to do.
"""

import inspect
import os
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np

import planted
from planted import WARM_UP_STEPS


class Job(planted.Job):
    """A job of JAX, in which steps end when the program has waited for them."""

    def wait(self, value):
        jax.block_until_ready(value)

    def matrix(self, rows, columns, dtype=None):
        """Return a random matrix by which products keep their size."""
        dtype = dtype or (jnp.bfloat16 if self.is_gpu else jnp.float32)
        return jnp.asarray(self.normal(rows, columns), dtype)


def kernel_bound(job):
    """Large products, of which fifty are queued before a wait."""
    n, products = job.size(8192, 512), 4
    weights = job.matrix(n, n)

    @jax.jit
    def product_step(value, weights):
        for _ in range(products):
            value = value @ weights
        return value

    steps, value = job.steps(200, 150), job.matrix(n, n)
    value = job.timed(
        lambda value: product_step(value, weights), value, steps, "product_step", wait_every=50
    )
    job.truth["products"] = products
    job.truth["float_ops"] = products * 2 * n**3
    show(value)


def host_bound(job):
    """Calls so small that the device waits for Python between them."""
    tiny = jnp.zeros(8)

    @jax.jit
    def tiny_add(value):
        return value + 1

    show(job.timed(tiny_add, tiny, 2000, "tiny_add", wait_every=100))


def input_bound(job):
    """An iterator sleeps before each step, and the step is waited for."""
    n = job.size(4096, 320)
    weights = job.matrix(n, n)

    @jax.jit
    def fed_step(value, weights):
        for _ in range(12):
            value = value @ weights
        return value, value.astype(jnp.float32).mean()

    input_ns = [0]

    def batches():
        while True:
            began_ns = time.perf_counter_ns()
            time.sleep(0.010)
            input_ns[0] += time.perf_counter_ns() - began_ns
            yield None

    iterator = batches()

    def step(state):
        next(iterator)
        value, mean = fed_step(state[0], weights)
        return value, float(mean)

    value = job.timed(step, (job.matrix(n, n), 0.0), job.steps(), "fed_step", wait_every=1)
    cycle_ns = job.truth["loop_ns"] / job.truth["timed_steps"]
    # Functions are named by their first lines.
    job.truth["input_line"] = [os.path.basename(__file__), inspect.getsourcelines(batches)[1]]
    job.truth["input_ratio"] = input_ns[0] / (WARM_UP_STEPS + job.truth["timed_steps"]) / cycle_ns
    show(value)


def sync_bound(job):
    """Each step reads the result of each of its twenty small parts."""
    parts = 20
    n = job.size(512, 96)
    weights = job.matrix(n, n, jnp.float32)

    @jax.jit
    def part(value):
        return value @ weights, value.mean()

    def step(state):
        value, _ = state
        for _ in range(parts):
            value, mean = part(value)
            mean = float(mean)
        return value, mean

    source, first_line = inspect.getsourcelines(step)
    (offset,) = (index for index, line in enumerate(source) if "float(mean)" in line)
    value = job.timed(
        step, (job.matrix(n, n, jnp.float32), 0.0), job.steps(50, 30), "step", wait_every=1
    )
    del job.truth["counts"]["step"]
    calls = parts * (WARM_UP_STEPS + job.truth["timed_steps"])
    job.count("part", calls)
    job.truth["calls_a_step"] = parts
    job.truth["waits"] = calls
    job.truth["wait_line"] = [os.path.basename(__file__), first_line + offset]
    show(value)


def copy_bound(job):
    """An array of the host goes to the device with each step: pageable, then pinned."""
    n = job.size(64 * 2**20, 2**20)
    host = np.arange(n, dtype=np.float32)

    @jax.jit
    def pageable_step(value, batch):
        return value + batch[:8]

    value = jnp.zeros(8)
    steps = job.steps(100, 110)
    value = job.timed(
        lambda value: pageable_step(value, host), value, steps, "pageable_step", wait_every=1
    )
    job.truth["bytes"] = host.nbytes
    job.truth["copy_ns"] = timed_copy(lambda: jax.device_put(host))
    show(value)

    pinned, why = in_pinned_memory(host)
    job.truth["pinned"] = why
    if pinned is None:
        return
    on_device = jax.sharding.SingleDeviceSharding(jax.devices()[0])

    @jax.jit
    def pinned_step(value, batch):
        return value + jax.device_put(batch, on_device)[:8]

    value = job.timed(
        lambda value: pinned_step(value, pinned), value, steps, "pinned_step", wait_every=1
    )
    job.truth["pinned_copy_ns"] = timed_copy(lambda: jax.device_put(pinned, on_device))
    show(value)


def timed_copy(copy):
    """Return how long a copy takes alone, ns: the median of nine."""
    times = []
    for _ in range(9):
        began_ns = time.perf_counter_ns()
        jax.block_until_ready(copy())
        times.append(time.perf_counter_ns() - began_ns)
    return sorted(times)[len(times) // 2]


def in_pinned_memory(values):
    """Return an array in pinned memory of the host and None, or None and why there is none."""
    try:
        sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")
        return jax.block_until_ready(jax.device_put(values, sharding)), None
    except Exception as problem:  # jax raises several types where a device has no such memory
        return None, f"{type(problem).__name__}: {problem}"[:200]


def overlap(job):
    """A copy from pinned memory beside products that do not need it."""
    n = job.size(8192, 256)
    weights = job.matrix(n, n)
    host = np.ones(job.size(16 * 2**20, 2**18), np.float32)
    batch, why = in_pinned_memory(host)
    job.truth["pinned"] = why
    if batch is None:
        return
    on_device = jax.sharding.SingleDeviceSharding(jax.devices()[0])

    @jax.jit
    def overlapped_step(value, weights, batch):
        copied = jax.device_put(batch, on_device)
        for _ in range(4):
            value = value @ weights
        return value + copied[0].astype(value.dtype)

    value = job.matrix(n, n)
    value = job.timed(
        lambda value: overlapped_step(value, weights, batch),
        value,
        job.steps() // 50 * 50,
        "overlapped_step",
        wait_every=50,
    )
    job.truth["bytes"] = host.nbytes
    job.truth["copy_ns"] = timed_copy(lambda: jax.device_put(batch, on_device))
    show(value)


def asynchronous(job):
    """Fifty steps without a wait, then one."""
    n = job.size(4096, 384)
    weights = job.matrix(n, n)

    @jax.jit
    def queued_step(value, weights):
        for _ in range(8):
            value = value @ weights
        return value

    value = job.matrix(n, n)
    steps = job.steps(200, 150) // 50 * 50
    show(
        job.timed(
            lambda value: queued_step(value, weights), value, steps, "queued_step", wait_every=50
        )
    )


def command_buffer(job):
    """Many small kernels a step, which XLA joins into a command buffer where it may."""
    n, layers = job.size(256, 64), 40
    weights = job.matrix(n, n, jnp.float32)

    @jax.jit
    def chained_step(value):
        for _ in range(layers):
            value = jnp.tanh(value @ weights)
        return value

    value = job.matrix(n, n, jnp.float32)
    value = job.timed(chained_step, value, job.steps(), "chained_step", wait_every=1)
    job.truth["products"] = layers
    # A product, and one operation for each tanh.
    job.truth["float_ops"] = layers * (2 * n**3 + n**2)
    show(value)


def memory(job):
    """A large array is held while steps run, then freed."""
    held_bytes = job.size(4 * 2**30, 64 * 2**20)
    held = jax.block_until_ready(jnp.ones(held_bytes // 4, jnp.float32))

    @jax.jit
    def holding_step(value, held):
        return value + held[:1024].sum() + (held * 2.0 + value[0]).max()

    value = job.timed(
        lambda value: holding_step(value, held) * 1e-9,
        jnp.zeros(1024),
        job.steps(),
        "holding_step",
        wait_every=1,
    )
    statistics = jax.devices()[0].memory_stats() or {}
    job.truth["peak_bytes"] = statistics.get("peak_bytes_in_use")
    plan = holding_step.lower(value, held).compile().memory_analysis()
    if plan is not None:
        job.truth["planned_bytes"] = (
            plan.argument_size_in_bytes
            + plan.output_size_in_bytes
            + plan.temp_size_in_bytes
            - plan.alias_size_in_bytes
        )
    job.truth["argument_bytes"] = held_bytes + 4096
    held.delete()
    show(value)


def training(job):
    """A small network trained as programs are: what recording it costs."""
    width, batch = job.size(2048, 192), job.size(2048, 128)
    layers = [job.matrix(width, width, jnp.float32) for _ in range(4)]
    images = job.matrix(batch, width, jnp.float32)

    def loss_of(layers):
        value = images
        for layer in layers:
            value = jnp.tanh(value @ layer)
        return jnp.square(value - 0.1).mean()

    @jax.jit
    def mlp_step(layers):
        loss, gradients = jax.value_and_grad(loss_of)(layers)
        return [
            layer - 0.1 * gradient for layer, gradient in zip(layers, gradients, strict=True)
        ], loss

    state = (layers, None)
    steps = 300 if job.is_quick else job.size(1500, 3000)
    layers, loss = job.timed(
        lambda state: mlp_step(state[0]), state, steps, "mlp_step", wait_every=10
    )
    show(layers)
    print("loss", float(loss).hex())


def own_profiler(job):
    """The program profiles five of its steps itself."""
    n = job.size(2048, 128)
    weights = job.matrix(n, n, jnp.float32)

    @jax.jit
    def profiled_step(value, weights):
        return value @ weights

    value = job.matrix(n, n, jnp.float32)
    steps = job.steps(150, 110)

    def step(value):
        return profiled_step(value, weights)

    value = job.timed(step, value, steps // 2, "profiled_step", wait_every=1)
    folder = os.path.join(os.getcwd(), "profile")
    jax.profiler.start_trace(folder)
    for number in range(5):
        with jax.profiler.StepTraceAnnotation("planted", step_num=number):
            value = step(value)
            jax.block_until_ready(value)
    jax.profiler.stop_trace()
    job.count("profiled_step", 5)
    value = job.timed(step, value, steps - steps // 2, "profiled_step", wait_every=1)
    files = [
        os.path.join(root, name)
        for root, _, names in os.walk(folder)
        for name in names
        if name.endswith(".xplane.pb")
    ]
    marked = [path for path in files if b"planted" in pathlib.Path(path).read_bytes()]
    job.truth["own_files"] = len(files)
    print("profiles", len(files), "marks", bool(files) and marked == files)
    show(value)


def show(value):
    """Print a digest of arrays."""
    planted.show(np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(value))


LOOPS = (
    kernel_bound,
    host_bound,
    input_bound,
    sync_bound,
    copy_bound,
    overlap,
    asynchronous,
    command_buffer,
    memory,
    training,
    own_profiler,
)


if __name__ == "__main__":
    planted.main(__doc__, Job, LOOPS)
