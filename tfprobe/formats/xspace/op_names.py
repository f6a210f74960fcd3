"""Parse the names that JAX gives its ops: scopes, and the transformations they went through.

A name such as "jit(step)/transpose(jvp(Net))/first/dot_general" lists what was called, outermost
first. Up to JAX 0.5 "jit(main)" follows the outermost function, and up to 0.4 the parameters of the
op follow its name in brackets.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

# The scope of all ops that compute gradients, as in TensorFlow 1.
GRADIENTS = "gradients"
_TRANSPOSED, _DIFFERENTIATED = "transpose", "jvp"
_WRAPPED = re.compile(
    r"(?P<transformation>jit|pjit|pmap|xmap|jvp|vjp|transpose|vmap|linearize|partial_eval"
    r"|remat|remat2|checkpoint|shard_map|custom_jvp|custom_vjp|custom_lin)\((?P<inside>.*)\)\Z",
    re.DOTALL,
)
_PROGRAM = re.compile(r"(?:jit|pjit|pmap|xmap)\(")
_MAIN = "main"
# Ops that only call others; as scopes they would hide that two ops are in one layer.
_CALLS = frozenset(
    (
        "checkpoint",
        "closed_call",
        "core_call",
        "custom_jvp_call",
        "custom_vjp_call",
        "custom_vjp_call_jaxpr",
        "eval_jaxpr",
        "pjit",
        "remat",
        "remat2",
        "rematted_computation",
        "shard_map",
        "xla_call",
        "xla_pmap",
    )
)
# The name of an argument, "state['kernel']", "args[0]": XLA gives it to copies of the argument.
_ARGUMENT = re.compile(r"\w[\w.]*\[")
# Nobody applies more transformations to one function.
_MOST_WRAPPERS = 64
_REMEMBERED = 2**16


class OpName(NamedTuple):
    """An op's name without transformations; `is_backward` if it computes gradients."""

    path: str
    is_backward: bool = False

    @property
    def scoped(self) -> str:
        """Return the path, below the scope of gradients if it is one."""
        return f"{GRADIENTS}/{self.path}" if self.is_backward else self.path


@functools.lru_cache(maxsize=_REMEMBERED)
def jax_op(name: str) -> OpName | None:
    """Return the op of JAX that an instruction was compiled from; None if the name is not JAX's.

    The compiled function is left out where the op has another scope.
    """
    if _PROGRAM.match(name) is None:
        return None
    function, *inside = (_unwrapped(part) for part in _parts(name))
    if inside and inside[0].text == _MAIN:
        del inside[0]
    scopes = _scopes(inside[:-1]) or [function.text]
    path = "/".join((*scopes, *(part.text for part in inside[-1:])))
    return OpName(path.strip("/"), any(_TRANSPOSED in part.by for part in (function, *inside)))


class _Part(NamedTuple):
    """A part of a name, and the transformations that it went through."""

    text: str
    by: frozenset[str]


def _scopes(parts: list[_Part]) -> list[str]:
    """Return the scopes among parts.

    What is computed again in the backward pass has its place there and then the one that it had in
    the forward pass, "transpose(jvp(Net))/jvp(Net)/checkpoint": the latter is enough.
    """
    scopes: list[_Part] = []
    for part in parts:
        if _DIFFERENTIATED in part.by and _TRANSPOSED not in part.by:
            again = (at for at, each in enumerate(scopes) if _is_backward_of(each, part))
            del scopes[next(again, len(scopes)) :]
        if part.text and part.text not in _CALLS:
            scopes.append(part)
    return [part.text for part in scopes]


def _is_backward_of(part: _Part, forward: _Part) -> bool:
    return _TRANSPOSED in part.by and part.text == forward.text


def is_argument(name: str) -> bool:
    """Return whether a name is that of an argument of a compiled function."""
    return _ARGUMENT.match(name) is not None


def op_path(name: str) -> str:
    """Return the name of the node that an op of any framework is, "" if the name is no op's."""
    of_jax = jax_op(name)
    if of_jax is not None:
        return of_jax.scoped
    return "" if is_argument(name) else name


def _parts(name: str) -> Iterator[str]:
    """Yield the parts between slashes, without parameters in brackets.

    XLA joins the names of ops that it made one instruction of, "jit(f)/a/mul;jit(f)/b/add": the
    first counts.
    """
    part: list[str] = []
    brackets = parentheses = 0
    for character in name:
        if character == "[":
            brackets += 1
        elif character == "]" and brackets:
            brackets -= 1
        elif not brackets:
            if character == ";" and not parentheses:
                break
            parentheses += (character == "(") - (character == ")" and parentheses > 0)
            if character == "/" and not parentheses:
                yield "".join(part)
                part = []
            else:
                part.append(character)
    yield "".join(part)


def _unwrapped(part: str) -> _Part:
    transformations: set[str] = set()
    for _ in range(_MOST_WRAPPERS):
        wrapped = _WRAPPED.match(part)
        if wrapped is None:
            break
        transformations.add(wrapped["transformation"])
        part = wrapped["inside"]
    return _Part(part, frozenset(transformations))
