"""Train on two processes that JAX connects; print what each of them printed."""

import json
import socket
import subprocess
import sys

STEPS = 30


def worker(index, address):
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, num_processes=2, process_id=index)
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()), ("data",))
    rows, everywhere = PartitionSpec("data"), PartitionSpec()

    @jax.jit
    def step(weights, x):
        loss, gradient = jax.value_and_grad(lambda w: ((x @ w - 1) ** 2).mean())(weights)
        return weights - 0.1 * gradient, loss

    random = np.random.RandomState(0)
    weights = jax.make_array_from_process_local_data(
        NamedSharding(mesh, everywhere), np.ones((8, 1), "float32")
    )
    for _ in range(STEPS):
        data = random.randn(16, 8).astype("float32")
        half = data[8 * index : 8 * index + 8]
        x = jax.make_array_from_process_local_data(NamedSharding(mesh, rows), half)
        weights, loss = step(weights, x)
        print("loss", np.asarray(loss.addressable_data(0)).tobytes().hex())
    print("weights", np.asarray(weights.addressable_data(0)).tobytes().hex())
    print("process", jax.process_index(), jax.process_count(), jax.device_count())


def main():
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        address = f"localhost:{listening.getsockname()[1]}"
    workers = [
        subprocess.Popen([sys.executable, __file__, str(index), address], stdout=subprocess.PIPE)
        for index in range(2)
    ]
    for process in workers:
        print(process.communicate()[0].decode(), process.returncode)
    print("COUNTS", json.dumps({"step": 2 * STEPS}))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        worker(int(sys.argv[1]), sys.argv[2])
    else:
        main()
