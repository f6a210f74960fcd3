"""Names of JAX become scopes: transformations are no scopes, and gradients are apart."""

from __future__ import annotations

import pytest

from tfprobe.formats.xspace.op_names import is_argument, jax_op


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("jit(step)/jvp(Net)/first/dot_general", "Net/first/dot_general"),
        ("jit(step)/transpose(jvp(Net))/first/dot", "gradients/Net/first/dot"),
        # Up to 0.5, and up to 0.4 with parameters.
        ("jit(step)/jit(main)/update/add", "update/add"),
        ("jit(step)/jit(main)/jvp(Net)/head/reduce_sum[axes=(0,)]", "Net/head/reduce_sum"),
        ("jit(step)/jit(main)/while[cond=a/b[1] n=0]/body/add", "while/body/add"),
        # Of several ops, joined in one instruction, the first.
        ("jit(step)/transpose(jvp(Net))/mul;jit(step)/a/broadcast_in_dim", "gradients/Net/mul"),
        # Functions called inside are scopes, what merely calls them is none.
        ("jit(step)/jvp(Net)/jit(relu)/max", "Net/relu/max"),
        ("jit(step)/vmap(jit(_where))/select_n", "_where/select_n"),
        ("jit(step)/while/body/closed_call/Net/add", "while/body/Net/add"),
        ("jit(step)/shard_map/Net/psum", "Net/psum"),
        ("pmap(step)/Net/add", "Net/add"),
        # Without another scope the function is one.
        ("jit(step)/add", "step/add"),
        ("jit(step)/jvp()/exp", "step/exp"),
        ("jit(step)/transpose(jvp())/mul", "gradients/step/mul"),
        ("jit(step)", "step"),
        # Recomputed in the backward pass, in both forms.
        (
            "jit(step)/jit(main)/transpose(jvp(Net))/checkpoint/rematted_computation/a/tanh",
            "gradients/Net/a/tanh",
        ),
        (
            "jit(step)/transpose(jvp(Net))/jvp(Net)/checkpoint/rematted_computation/a/tanh",
            "gradients/Net/a/tanh",
        ),
        (
            "jit(step)/transpose(jvp(Net))/outer/jvp(Net)/outer/checkpoint/a/tanh",
            "gradients/Net/outer/a/tanh",
        ),
        ("jit(step)/remat2", "step/remat2"),
        # Scopes of the program may look like anything.
        ("jit(step)/block (1)/add", "block (1)/add"),
        ("jit(step)/my(jvp)/add", "my(jvp)/add"),
        ("jit(step)/...qhd,...khd->...hqk/dot_general", "...qhd,...khd->...hqk/dot_general"),
        ("jit(step)/transpose(jvp(Net/a", "step/transpose(jvp(Net/a"),
    ],
)
def test_a_name_is_scopes_and_an_op(name: str, path: str) -> None:
    """Outermost first, and the compiled function is left out."""
    op = jax_op(name)

    assert op is not None
    assert op.scoped == path
    assert op.is_backward == path.startswith("gradients/")


@pytest.mark.parametrize("name", ["first/MatMul", "", "StatefulPartitionedCall/a", "jitter(a)/b"])
def test_names_of_others_are_none_of_jax(name: str) -> None:
    """TensorFlow compiles with XLA, too."""
    assert jax_op(name) is None


def test_a_copy_of_an_argument_is_no_op_of_the_program() -> None:
    """XLA gives a copy of an argument its name."""
    assert is_argument("params['mlp/linear']['w']")
    assert is_argument("args[0]")
    assert not is_argument("first/MatMul")


def test_a_name_of_a_million_brackets_ends() -> None:
    """Damage is no reason to wait."""
    for name in ("jit(" * 10**5, "jit(a)/" + "[" * 10**6, "jit(a)/" + "/" * 10**5):
        assert jax_op(name) is not None
