"""Say for each node of a code or scope view under which shown places it stands.

Every accounted node is in exactly one stack, so that they add up to the root's total. What is made
at a place that is not shown stands under the nearest one above it that is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tfprobe.analysis.ops.code_view import CodeView
from tfprobe.analysis.ops.cost_tree import Branch, Shown


@dataclass(frozen=True, slots=True)
class Stack:
    """Nodes, and the shown places they are in, outermost first.

    Without `is_known` nobody knows where the nodes were made.
    """

    branches: tuple[Branch, ...]
    nodes: tuple[int, ...]
    is_known: bool = True


def code_stacks(view: CodeView) -> Iterator[Stack]:
    """Return the stacks of a code view, last those of the nodes that are at no line."""
    yield from scope_stacks(view.shown)
    if view.unplaced:
        yield Stack((), view.unplaced, is_known=False)


def scope_stacks(shown: Shown) -> Iterator[Stack]:
    """Return the stacks of a tree, those of the same place together."""
    # Of what is shown, the places it is in, itself the last; the root is none.
    paths: dict[int, tuple[Branch, ...]] = {id(shown.branch): ()}
    above = [shown]
    while above:
        each = above.pop()
        for child in each.children:
            paths[id(child.branch)] = (*paths[id(each.branch)], child.branch)
            above.append(child)
    waiting = [(shown.branch, paths[id(shown.branch)])]
    while waiting:
        branch, path = waiting.pop()
        path = paths.get(id(branch), path)
        if branch.is_accounted and branch.members:
            yield Stack(path, branch.members)
        waiting.extend((child, path) for child in reversed(branch.children))
