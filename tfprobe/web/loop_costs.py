"""What the nodes of a loop cost in its traced steps: found once for all pages that say so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tfprobe.analysis.core import no_data_reasons
from tfprobe.analysis.ops.arguments import model_arguments, with_parameters
from tfprobe.analysis.ops.flops.count import FloatOps, count
from tfprobe.analysis.ops.op_stats import (
    AT,
    Costs,
    has_accessed_bytes,
    has_float_ops,
    known_columns,
    total_costs,
)
from tfprobe.analysis.ops.op_view import as_executed
from tfprobe.errors import Missing, NoAnswer
from tfprobe.profile.graph import TracedLoop
from tfprobe.profile.tables import Int64s
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.loop_choice import loops_document
from tfprobe.web.params import Params

# What pages order and colour by -> the column of costs.
METRICS: Mapping[str, str] = {
    "time": "time_ns",
    "bytes": "bytes",
    "float_ops": "float_ops",
    "params": "params",
}
# Columns of a place, of a mean step: all but parameters, which are there once.
_COLUMNS = ("time_ns", "accelerator_ns", "cpu_ns", "bytes", "float_ops", "params", "runs")
# Only compiled programs say what they read and write.
_OF_PROGRAMS = "accessed_bytes"
_SAMPLE = "Record with `tfprobe run --every N`, or ask for a sample while the job runs."
_NO_MEMORY = "this capture has no allocator data"
_NO_PARAMETERS = "the recording has no graph"
_NO_FLOAT_OPS = "the shapes that ops met are not known"


@dataclass(frozen=True, slots=True, eq=False)
class LoopCosts:
    """The traced steps of a loop; `costs` are those of all of them together, by node.

    `place` is that of the loop in the profile.
    """

    place: int
    sampled: TracedLoop
    float_ops: FloatOps
    costs: Costs

    @property
    def steps(self) -> int:
        """Return how many steps were traced."""
        return len(self.sampled.captures)

    def only(self, device: str) -> LoopCosts:
        """Return what ran on one device alone."""
        rows = self.sampled.executions
        chosen = rows.device == rows.strings.values.index(device)
        sampled = replace(
            self.sampled, executions=rows.only(chosen), node=self.sampled.node[chosen]
        )
        float_ops = replace(
            self.float_ops,
            of_rows=self.float_ops.of_rows[chosen],
            accessed_of_rows=self.float_ops.accessed_of_rows[chosen],
        )
        return LoopCosts(self.place, sampled, float_ops, total_costs(sampled, float_ops))


class NothingRecorded(NoAnswer):
    """The recording lacks what a page shows of the requested loop."""


def costs_document(
    run: OpenRun, question: Params, make: Callable[[LoopCosts], dict[str, Any]]
) -> dict[str, Any]:
    """Return what `make` says of a loop; where nothing is recorded, `nothing` says why.

    The page is there all the same, so that one can choose another loop. Any: JSON values.
    """
    try:
        return make(loop_costs_of(run, question))
    except NothingRecorded as exc:
        loop = run.place(run.loop(question))
        return {"works": loops_document(run), "work": loop, "nothing": str(exc)}


def loop_costs_of(run: OpenRun, question: Params) -> LoopCosts:
    """Return what the loop of a question costs. Raises NothingRecorded where none was traced."""
    loop = run.loop(question)
    place = run.place(loop)
    return run.made(("priced", place), lambda: _priced(run, place))


def head(run: OpenRun, found: LoopCosts) -> dict[str, Any]:
    """Return what all documents about costs begin with. Any: JSON values.

    `missing` says by column why it is null everywhere, `has_graph` whether places are in a graph.
    """
    return {
        "works": loops_document(run),
        "work": found.place,
        "steps": found.steps,
        "has_graph": found.sampled.has_graph,
        "missing": missing(found),
    }


def missing(found: LoopCosts) -> dict[str, str]:
    """Return why columns are not known of any node."""
    known = known_columns(found.sampled, found.float_ops)
    reasons = {
        "bytes": _NO_MEMORY,
        "params": _no_parameters(found),
        "float_ops": _NO_FLOAT_OPS,
    }
    return {name: reason for name, reason in reasons.items() if name not in known}


def columns(found: LoopCosts) -> tuple[str, ...]:
    """Return the columns of costs that a recording of this kind may have."""
    return (*_COLUMNS, _OF_PROGRAMS) if found.sampled.programs else _COLUMNS


def _no_parameters(found: LoopCosts) -> str:
    """Return why nothing is known of parameters."""
    known = model_arguments(found.sampled.programs)
    has_programs = bool(found.sampled.programs)
    return known.reason if has_programs and isinstance(known, Missing) else _NO_PARAMETERS


def row(
    found: LoopCosts, costs: Int64s, unknown: Mapping[str, str]
) -> dict[str, int | float | None]:
    """Return a row of costs for a mean step, null where it is not known; `unknown` are columns."""
    steps = max(found.steps, 1)
    values: dict[str, int | float | None] = {
        name: None if name in unknown else round(int(costs[AT[name]]) / steps)
        for name in columns(found)
    }
    values["runs"] = round(int(costs[AT["runs"]]) / steps, 2)
    if "params" not in unknown:
        values["params"] = int(costs[AT["params"]])
    if not has_float_ops(costs):
        values["float_ops"] = None
    if _OF_PROGRAMS in values and not has_accessed_bytes(costs):
        values[_OF_PROGRAMS] = None
    return values


def devices(found: LoopCosts) -> tuple[str, ...]:
    """Return the devices that have rows, by name; a question names one by its place."""
    rows = found.sampled.executions
    return tuple(
        sorted(rows.strings[at] for at in np.flatnonzero(np.bincount(rows.device)).tolist())
    )


def _priced(run: OpenRun, place: int) -> LoopCosts:
    loop = run.profile.loops[place]
    sampled = run.sampled(loop, with_shapes=True)
    if isinstance(sampled, Missing):
        raise NothingRecorded(
            f"There is nothing to show: {sampled.reason}.",
            hint=" ".join(no_data_reasons.explain(run.profile)) or _SAMPLE,
        )
    sampled = with_parameters(sampled)
    float_ops = count(sampled)
    costs = total_costs(sampled, float_ops)
    return LoopCosts(place, as_executed(sampled), float_ops, costs)
