"""Run pmap, pjit and shard_map, compiled and not, on four devices of the CPU."""

import functools
import json
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pjit import pjit
from jax.sharding import Mesh, NamedSharding, PartitionSpec

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

COUNTS = {}


def ran(name, times=1):
    COUNTS[name] = COUNTS.get(name, 0) + times


def show(name, value):
    print(name, value.sharding, np.asarray(value).tobytes().hex())


print("devices", jax.local_device_count())
mesh = Mesh(np.array(jax.devices()), ("data",))
rows = PartitionSpec("data")
x = jnp.arange(16.0).reshape(4, 4)
sharded = jax.device_put(x, NamedSharding(mesh, rows))


@functools.partial(jax.pmap, axis_name="devices", donate_argnums=0)
def averaged(x):
    return jax.lax.pmean(x, "devices")


for _ in range(4):
    show("pmap", averaged(x + 1))
ran("averaged", 4)
static = jax.pmap(lambda x, times: x * times, static_broadcasted_argnums=1)
for times in (1, 2):
    show("pmap with a static argument", static(x, times))
ran("<lambda>", 2)
show("pmap of jit", jax.pmap(jax.jit(lambda x: x - 1))(x))
ran("<lambda>")
show("jit of pmap", jax.jit(lambda x: jax.pmap(jnp.sin)(x) + 1)(x))
ran("<lambda>")
print(averaged.lower(x).as_text())


def doubled(x):
    return 2 * x


with mesh:
    show("pjit", pjit(doubled, in_shardings=rows, out_shardings=rows)(x))
    ran("doubled")


@functools.partial(jax.jit, out_shardings=NamedSharding(mesh, PartitionSpec()))
def gathered(x):
    return x + 1


for _ in range(3):
    show("jit over a mesh", gathered(sharded))
ran("gathered", 3)


@functools.partial(shard_map, mesh=mesh, in_specs=rows, out_specs=PartitionSpec())
def summed(x):
    return jax.lax.psum(x, "data")


print("mapped", str(type(summed)), summed.__name__, callable(summed))
for _ in range(3):
    show("shard_map", summed(sharded))
ran("summed", 3)
compiled_sum = jax.jit(summed)
for _ in range(3):
    show("jit of shard_map", compiled_sum(sharded))
ran("summed", 3)
print(jax.make_jaxpr(summed)(sharded))
show("grad", jax.grad(lambda x: summed(x).sum())(sharded))


@jax.jit
@functools.partial(shard_map, mesh=mesh, in_specs=(rows, PartitionSpec()), out_specs=rows)
def scaled(x, factor):
    return x * factor


for _ in range(3):
    show("shard_map under jit", scaled(sharded, 2.0))
ran("scaled", 3)
compiled = scaled.lower(sharded, 2.0).compile()
show("ahead of time", compiled(sharded, 2.0))
ran("compiled scaled")
print("COUNTS", json.dumps(COUNTS))
