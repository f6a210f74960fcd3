"""Transform compiled functions in every way; print the results and what ran by itself."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax._src.core import trace_state_clean

COUNTS = {}


def ran(name, times=1):
    COUNTS[name] = COUNTS.get(name, 0) + times


def show(name, tree):
    for leaf in jax.tree_util.tree_leaves(tree):
        print(name, np.asarray(leaf).tobytes().hex())


@jax.jit
def inner(x):
    return jnp.sin(x) * x


@functools.partial(jax.jit, static_argnums=(1,), static_argnames=("scale",))
def powered(x, power, scale=1):
    return scale * x**power


@jax.jit
def outer(x):
    return inner(x) + powered(x, 2) + jax.jit(jnp.cos)(x)


x = jnp.linspace(0.0, 1.0, 4)
for _ in range(5):
    show("inner", inner(x))
    show("outer", outer(x))
    show("powered", powered(x, 3, scale=2))
ran("inner", 5)
ran("outer", 5)
ran("powered", 5)

show("vmap", jax.vmap(inner)(jnp.ones((3, 4))))
show("vmap of static", jax.vmap(lambda x: powered(x, 2))(jnp.ones((3, 4))))
show("grad", jax.grad(lambda x: inner(x).sum())(x))
show("value and grad", jax.value_and_grad(lambda x: outer(x).sum())(x))
show("jvp", jax.jvp(inner, (x,), (jnp.ones(4),)))
value, pull = jax.vjp(inner, x)
show("vjp", (value, pull(jnp.ones(4))))
show("linearized", jax.linearize(inner, x)[1](jnp.ones(4)))
show("jacobian", (jax.jacfwd(inner)(x), jax.jacrev(inner)(x)))
show("hessian", jax.hessian(lambda x: inner(x).sum())(x))
show("checkpoint", jax.grad(lambda x: jax.checkpoint(inner)(x).sum())(x))
show("remat of jit", jax.jit(jax.checkpoint(inner))(x))
ran("inner")
show("scan", jax.lax.scan(lambda carry, x: (inner(carry), inner(x)), x, jnp.ones((3, 4))))
show("scan of jit", jax.lax.scan(jax.jit(lambda carry, x: (carry + x, carry)), x, jnp.ones((3, 4))))
show("map", jax.lax.map(inner, jnp.ones((3, 4))))
show("while", jax.lax.while_loop(lambda x: x.sum() < 9, jax.jit(lambda x: x + 1), x))
show("loop", jax.lax.fori_loop(0, 3, lambda _, x: inner(x), x))
show("cond", jax.lax.cond(x.sum() > 0, inner, lambda x: x, x))
show("switch", jax.lax.switch(1, [inner, outer], x))
show("tree map", jax.tree_util.tree_map(inner, {"a": x, "b": x}))
ran("inner", 2)


@jax.custom_vjp
def clipped(x):
    return inner(x)


def forward(x):
    # Called with a value; from JAX 0.10 on not as a part of what is differentiated. The step is the
    # gradient that calls it.
    print("executes", trace_state_clean())
    return inner(x), x


clipped.defvjp(forward, lambda _, g: (jnp.clip(g, -0.1, 0.1),))
show("custom vjp", jax.grad(lambda x: clipped(x).sum())(x))
show("custom vjp in jit", jax.jit(jax.grad(lambda x: clipped(x).sum()))(x))
ran("<lambda>")


@jax.custom_jvp
def halved(x):
    return x / 2


halved.defjvp(lambda primals, tangents: (halved(*primals), tangents[0] / 2))
show("custom jvp", jax.jit(halved)(x))
show("jvp of custom jvp", jax.jvp(jax.jit(halved), (x,), (x,)))
ran("halved")

compiled_custom = jax.custom_vjp(jax.jit(lambda x: x * 3))
compiled_custom.defvjp(lambda x: (x * 3, None), lambda _, g: (g * 3,))
show("custom vjp of jit", jax.grad(lambda x: compiled_custom(x).sum())(x))

print("eval shape", jax.eval_shape(inner, x), jax.eval_shape(lambda x: powered(x, 2), x))
try:
    print("eval shape of static", jax.eval_shape(powered, x, 2, scale=3))
except ValueError as error:  # before JAX 0.10
    print("eval shape of static", type(error).__name__)
print("own eval shape", inner.eval_shape(x), powered.eval_shape(x, 2, scale=3))
print(jax.make_jaxpr(inner)(x))
print(jax.make_jaxpr(outer)(x))
print(jax.make_jaxpr(powered, static_argnums=1)(x, 2))
print(inner.trace(x).jaxpr)
print(outer.lower(x).as_text())
print(outer.lower(x).as_text(debug_info=True) if hasattr(jax, "shard_map") else "")
lowered = powered.lower(x, 3, scale=2)
compiled = lowered.compile()
print(lowered.out_info, compiled.in_tree, compiled.out_tree, compiled.as_text())
for _ in range(4):
    show("compiled", compiled(x))
ran("compiled powered", 4)
show("grad of compiled", [compiled(x)])
ran("compiled powered")
exported = export.export(inner)(x)
print("exported", exported.fun_name, exported.in_avals, exported.mlir_module())
called = jax.jit(exported.call)
for _ in range(2):
    show("called", called(x))
ran(called.__name__, 2)

jax.clear_caches()
show("after clear_caches", inner(x))
ran("inner")
inner.clear_cache()
show("after clear_cache", inner(x))
ran("inner")
print("cache", inner._cache_size(), outer._cache_size())
with jax.ensure_compile_time_eval():
    show("compile time", inner(x))
ran("inner")


@jax.jit
def with_constant(x):
    with jax.ensure_compile_time_eval():
        constant = inner(jnp.ones(4))
    return x + constant


show("constant", with_constant(x))
ran("with_constant")
with jax.checking_leaks():
    show("checking leaks", jax.jit(lambda x: inner(x) + 1)(x))
ran("<lambda>")
for _ in range(3):
    show("fresh", jax.jit(lambda x: x * 5)(x))
ran("<lambda>", 3)
print("COUNTS", json.dumps(COUNTS))
