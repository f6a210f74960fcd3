"""Where the answer of a view goes when `-output` names a file: text, a timeline, or pprof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tfprobe.cli import common
from tfprobe.errors import NoAnswer, UsageError
from tfprobe.printable import printable

if TYPE_CHECKING:
    from tfprobe.analysis.ops.cost_tree import ViewOptions
    from tfprobe.analysis.ops.flops.count import FloatOps
    from tfprobe.profile.graph import TracedLoop
    from tfprobe.tfprof.options import Output

_AVERAGE = -1


def check(view: str, output: Output, *, as_json: bool) -> None:
    """Raise UsageError or NoAnswer for what cannot be written."""
    if as_json and output.kind != "stdout":
        raise UsageError(f"--json and -output {output.kind} cannot be combined.")
    if output.kind == "timeline" and view == "op":
        raise NoAnswer(
            "`tfprobe op` has no timeline.", hint="Use `tfprobe graph`, `scope` or `code`."
        )
    if output.kind == "pprof" and view != "code":
        raise NoAnswer(f"`tfprobe {view}` has no pprof profile.", hint="Use `tfprobe code`.")


def write(
    view: str,
    output: Output,
    found: TracedLoop,
    float_ops: FloatOps | None,
    choice: ViewOptions,
    text: Callable[[], str],
) -> str:
    """Write the answer to where `output` says; return the message about it.

    Raises UsageError when a file cannot be written.
    """
    if output.kind == "none":
        return ""
    path = output.keys["outfile"]
    if output.kind == "file":
        common.write_file(path, text())
        return f"Report written to {printable(path)}.\n"
    if output.kind == "pprof":
        _write_bytes(path, _pprof(found, float_ops, choice))
        shown = printable(path)
        return f"Profile written to {shown}; open it with `go tool pprof -http=: {shown}`.\n"
    said = []
    for step, timeline in _timelines(view, found, choice):
        common.write_file(f"{path}_{step}", timeline)
        said.append(
            f"Timeline written to {printable(path)}_{step}; "
            "open it in chrome://tracing or Perfetto.\n"
        )
    return "".join(said)


def _pprof(found: TracedLoop, float_ops: FloatOps | None, choice: ViewOptions) -> bytes:
    from tfprobe.analysis.ops.code_view import code
    from tfprobe.analysis.ops.op_stats import known_columns, step_costs
    from tfprobe.export.pprof import pprof

    costs = step_costs(found, choice.step, float_ops)
    known = known_columns(found, float_ops)
    return pprof(found, costs, code(found, costs, choice), known=known)


def _timelines(view: str, found: TracedLoop, choice: ViewOptions) -> list[tuple[int, str]]:
    """Return a timeline for each step of the graph view, and one of the other views."""
    from tfprobe.analysis.ops.code_view import code
    from tfprobe.analysis.ops.op_stats import step_costs
    from tfprobe.analysis.ops.scope_view import graph, scope
    from tfprobe.analysis.ops.tfprof_records import graph_profile
    from tfprobe.export.timeline import graph_timeline, tree_timeline

    if view != "graph":
        costs = step_costs(found, choice.step)
        shown = code(found, costs, choice).shown if view == "code" else scope(found, costs, choice)
        return [(choice.step, tree_timeline(shown))]
    profile = graph_profile(found)
    steps = profile.steps if choice.step == _AVERAGE else (choice.step,)
    timelines = []
    for step in steps:
        shown = graph(found, step_costs(found, step), replace(choice, step=step))
        timelines.append((step, graph_timeline(profile, shown, step)))
    return timelines


def _write_bytes(path: str, content: bytes) -> None:
    try:
        Path(path).write_bytes(content)
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror or exc}.") from exc
