"""The nodes of a graph by their names, which are paths: what each scope costs."""

from __future__ import annotations

from tfprobe.analysis.ops.cost_tree import Branch, Rules, Shown, account, show, type_matcher
from tfprobe.analysis.ops.costs import AT, Costs, nothing
from tfprobe.analysis.ops.view_options import Choice
from tfprobe.profile.graph import Placed

ROOT = "_TFProfRoot"
# The type of a scope that is no node itself.
SCOPE_TYPE = "_kTFScopeParent"
RULES = Rules(
    below_missed="keep",
    trims_itself=False,
    least_of_total=frozenset(
        {
            "bytes",
            "peak_bytes",
            "residual_bytes",
            "output_bytes",
            "micros",
            "accelerator_micros",
            "cpu_micros",
        }
    ),
)


def scope(profile: Placed, costs: Costs, choice: Choice) -> Shown:
    """Return the scopes and nodes that `choice` shows, below one root."""
    branches: dict[str, Branch] = {}
    for at, node in enumerate(profile.graph.nodes):
        # Below their layers, gradients of two tapes may have one name.
        same = branches.get(node.name)
        branches[node.name] = Branch(
            name=node.name,
            own=costs.rows[at] if same is None else same.own + costs.rows[at],
            types=types_of(profile, at) | (frozenset() if same is None else same.types),
            members=(at,) if same is None else (*same.members, at),
        )
    for name in list(branches):
        _add_scopes(branches, name, counted=choice.as_engine)
    tops: list[Branch] = []
    for name in sorted(branches):
        above = name.rpartition("/")[0]
        (branches[above].children if above else tops).append(branches[name])
    root = Branch(name=ROOT, own=nothing(), types=frozenset({SCOPE_TYPE}))
    root.children = account(tops, type_matcher(choice), RULES, as_engine=choice.as_engine)
    return show(root, choice, RULES)


def types_of(profile: Placed, at: int) -> frozenset[str]:
    """Return the types of a node: its op, what the op log says, and the devices it ran on."""
    device = profile.devices[at]
    return profile.graph.nodes[at].types | frozenset(device.split("|") if device else ())


def _add_scopes(branches: dict[str, Branch], name: str, *, counted: bool) -> None:
    """Add the scopes above a name; the engine counts each as a definition."""
    while name := name.rpartition("/")[0]:
        if name in branches:
            continue
        own = nothing()
        own[AT["definitions"]] = counted
        branches[name] = Branch(name=name, own=own, types=frozenset({SCOPE_TYPE}))
