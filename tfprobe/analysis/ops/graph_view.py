"""The nodes of a graph along its edges, from consumers to producers: what each subgraph costs."""

from __future__ import annotations

from tfprobe.analysis.ops.cost_tree import Branch, Rules, Shown, account, show, type_matcher
from tfprobe.analysis.ops.costs import Costs, nothing
from tfprobe.analysis.ops.scope_view import RULES as SCOPE_RULES
from tfprobe.analysis.ops.scope_view import types_of
from tfprobe.analysis.ops.view_options import Choice
from tfprobe.profile.graph import Placed

ROOT = "_TFProfRoot"
ROOT_TYPE = "_TFGraphParent"
RULES = Rules(below_missed="lift", trims_itself=False, least_of_total=SCOPE_RULES.least_of_total)


def graph(profile: Placed, costs: Costs, choice: Choice) -> Shown:
    """Return the nodes that `choice` shows, each below the first consumer that leads to it."""
    root = Branch(name=ROOT, own=nothing(), types=frozenset({ROOT_TYPE}))
    root.children = account(
        _tree(profile, costs), type_matcher(choice), RULES, as_engine=choice.as_engine
    )
    return show(root, choice, RULES)


def _tree(profile: Placed, costs: Costs) -> list[Branch]:
    """Make a tree of the graph, depth first, without the cycles that nothing leads to."""
    nodes = profile.graph.nodes
    ids = {node.name: at for at, node in enumerate(nodes)}
    inputs = [
        [ids[node.inputs[index]] for index in sorted(node.inputs) if node.inputs[index] in ids]
        for node in nodes
    ]
    used = {producer for producers in inputs for producer in producers}
    visited: set[int] = set()
    tops: list[Branch] = []
    for top in sorted(set(range(len(nodes))) - used, key=lambda at: nodes[at].name):
        waiting = [(top, tops)]
        while waiting:
            at, siblings = waiting.pop()
            if at in visited:
                continue
            visited.add(at)
            branch = Branch(
                name=nodes[at].name,
                own=costs.rows[at],
                types=types_of(profile, at),
                members=(at,),
            )
            siblings.append(branch)
            waiting.extend((producer, branch.children) for producer in reversed(inputs[at]))
    return tops
