"""Compute a view of a profile in a step, and keep it as it is for a report or a message."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from tfprobe.analysis.ops.code_view import CodeView, code
from tfprobe.analysis.ops.cost_tree import Shown
from tfprobe.analysis.ops.costs import Costs, costs
from tfprobe.analysis.ops.graph_view import graph
from tfprobe.analysis.ops.op_view import OpView, op
from tfprobe.analysis.ops.scope_view import scope
from tfprobe.analysis.ops.view_options import Choice
from tfprobe.errors import UnreadableInput
from tfprobe.profile.records import GraphProfile, Tensors
from tfprobe.tfprof import layout
from tfprobe.tfprof.tensors import text_of


@dataclass(frozen=True, slots=True)
class Viewed:
    """What a view found: a tree of scopes, nodes or lines, or a list of ops."""

    costs: Costs
    found: Shown | CodeView | OpView

    @property
    def shown(self) -> Shown | None:
        """The tree, if it is one."""
        if isinstance(self.found, CodeView):
            return self.found.shown
        return self.found if isinstance(self.found, Shown) else None


def viewed(profile: GraphProfile, view: str, choice: Choice) -> Viewed:
    """Return what `view`, one of scope, graph, op and code, shows of the step of the choice."""
    of_step = costs(profile, choice.step)
    views: dict[str, Callable[..., Shown | CodeView | OpView]] = {
        "code": code,
        "graph": graph,
        "op": op,
        "scope": scope,
    }
    return Viewed(of_step, views[view](profile, of_step, choice))


def body(profile: GraphProfile, seen: Viewed, choice: Choice, remark: Callable[[str], None]) -> str:
    """Return the body of its report; `remark` is told of values that cannot be read."""
    if isinstance(seen.found, OpView):
        return layout.op_body(profile, seen.costs, seen.found, choice)
    if isinstance(seen.found, CodeView):
        return layout.code_body(profile, seen.found.shown, choice)
    if "tensor_value" not in choice.select or profile.tensors is None:
        return layout.scope_body(profile, seen.found, choice)
    value_of = functools.partial(_value_of, profile.tensors, remark)
    return layout.scope_body(profile, seen.found, choice, value_of)


def _value_of(tensors: Tensors, remark: Callable[[str], None], name: str) -> str:
    if name not in tensors.names:
        return ""
    try:
        return text_of(tensors.read(name))
    except UnreadableInput as exc:
        remark(f"A value is not shown: {exc}.")
        return ""
