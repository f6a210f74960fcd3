"""Make one report: a view of a profile, as text or as files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfprobe.analysis.core.names import compile_patterns
from tfprobe.analysis.ops.code_view import CodeView, code
from tfprobe.analysis.ops.cost_tree import TreeNode, ViewOptions
from tfprobe.analysis.ops.op_stats import Costs
from tfprobe.analysis.ops.op_view import OpView, op
from tfprobe.analysis.ops.scope_view import graph, scope
from tfprobe.analysis.ops.tfprof_records import costs
from tfprobe.errors import NoAnswer, UnreadableInput, UsageError
from tfprobe.profile.records import GraphProfile, Tensors
from tfprobe.tfprof import layout
from tfprobe.tfprof.layout import text_of
from tfprobe.tfprof.options import Options

AVERAGE = -1


@dataclass(frozen=True, slots=True)
class TfprofReport:
    """What to print, remarks about it, and the view itself.

    The graph view's timelines of all steps are many views; then `viewed` is None.
    """

    text: str
    remarks: tuple[str, ...] = ()
    viewed: Viewed | None = None


def answer(profile: GraphProfile, view: str, options: Options) -> TfprofReport:
    """Return the report of `view`; timelines and files are written.

    Raises UsageError for an unknown view, NoAnswer for a step or traces that the profile does not
    have, and UsageError for a file that cannot be written.
    """
    if view not in VIEWS:
        raise UsageError(f"There is no view {view!r}.", hint=f"Views: {', '.join(VIEWS)}.")
    _check(profile, view, options)
    remarks = _remarks(profile, view, options)
    if options.output.kind == "timeline" and view == "graph" and options.choice.step == AVERAGE:
        said = [_write_timeline(profile, view, _in_step(options, step)) for step in profile.steps]
        return TfprofReport("".join(said), tuple(remarks))
    seen = viewed(profile, view, options.choice)
    remarks += _lost(seen)
    text = _written(profile, view, options, seen, remarks.append)
    return TfprofReport(text, tuple(remarks), seen)


def _written(
    profile: GraphProfile,
    view: str,
    options: Options,
    seen: Viewed,
    remark: Callable[[str], None],
) -> str:
    """Write what goes to a file, and return what is to be printed."""
    kind = options.output.kind
    if kind == "none":
        return ""
    if kind == "timeline":
        return _write_timeline(profile, view, options, seen)
    if kind == "pprof":
        return _write_pprof(profile, options, seen)
    report = explanations(view, options.choice) + body(profile, seen, options.choice, remark)
    if kind != "file":
        return report
    path = options.output.keys["outfile"]
    _write(path, report)
    return f"The report is in {path}.\n"


def _check(profile: GraphProfile, view: str, options: Options) -> None:
    if options.output.kind == "pprof":
        check_pprof(view, options.choice.select)
    step = options.choice.step
    if step != AVERAGE and step not in profile.steps:
        known = ", ".join(map(str, profile.steps)) or "none"
        raise NoAnswer(f"The profile has no step {step}.", hint=f"It has {known}.")
    if view == "code" and not profile.graph.has_traces:
        raise NoAnswer(
            "The profile does not know which code made its ops.",
            hint="Give an op log with traces, or use the scope, graph or op view.",
        )
    if view == "op" and options.output.kind == "timeline":
        raise NoAnswer("The op view has no timeline.", hint="Use the graph, scope or code view.")


def check_pprof(view: str, select: Sequence[str]) -> None:
    """Raise NoAnswer for a view without pprof files, UsageError unless one metric is chosen."""
    if view != "code":
        raise NoAnswer(f"The {view} view has no pprof file.", hint="Use the code view.")
    from tfprobe.export.pprof import ENGINE_METRICS

    metrics = sorted(set(select))
    if len(metrics) != 1:
        raise UsageError(
            f"A pprof file holds one metric, and {len(metrics)} are selected.",
            hint="Say -select micros, or another one.",
        )
    if metrics[0] not in ENGINE_METRICS:
        raise UsageError(
            f"A pprof file cannot hold {metrics[0]}.", hint=f"Metrics: {', '.join(ENGINE_METRICS)}."
        )


def _remarks(profile: GraphProfile, view: str, options: Options) -> list[str]:
    choice = options.choice
    remarks = []
    for name in ("account_type", "start_name", "trim_name", "show_name", "hide_name"):
        for text, why in compile_patterns(getattr(choice, f"{name}_regexes")).invalid:
            remarks.append(f"-{name}_regexes: {text!r} is no regex and matches nothing ({why}).")
    if view == "code" and choice.account_displayed_op_only:
        remarks.append("-account_displayed_op_only does nothing in the code view.")
    if "tensor_value" in choice.select and (view in ("code", "op") or profile.tensors is None):
        remarks.append("-select tensor_value needs a checkpoint, and the scope or graph view.")
    if profile.lacks_stream:
        remarks.append("A GPU was used, and no times of its kernels are in the profile.")
    return remarks


def _lost(seen: Viewed) -> list[str]:
    lost = seen.found.lost_gradients if isinstance(seen.found, CodeView) else 0
    return [f"{lost} gradient ops are left out: their forward ops have no code."] if lost else []


def _write_timeline(
    profile: GraphProfile, view: str, options: Options, seen: Viewed | None = None
) -> str:
    from tfprobe.export.timeline import graph_timeline, tree_timeline

    step = options.choice.step
    shown = (seen or viewed(profile, view, options.choice)).shown
    assert shown is not None, "the op view has been refused"
    text = graph_timeline(profile, shown, step) if view == "graph" else tree_timeline(shown)
    path = f"{options.output.keys['outfile']}_{step}"
    _write(path, text)
    return f"The timeline is in {path}; open it in chrome://tracing or Perfetto.\n"


def _in_step(options: Options, step: int) -> Options:
    return replace(options, choice=replace(options.choice, step=step))


def _write_pprof(profile: GraphProfile, options: Options, seen: Viewed) -> str:
    from tfprobe.export.pprof import engine_pprof

    choice, path = options.choice, options.output.keys["outfile"]
    assert seen.shown is not None, "other views than code have been refused"
    _write(path, engine_pprof(profile, seen.costs, seen.shown, choice.select[0]))
    return f"The profile is in {path}; open it with `pprof -sample_index=1 {path}`.\n"


def _write(path: str, content: str | bytes) -> None:
    try:
        Path(path).write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror}.") from exc


@dataclass(frozen=True, slots=True)
class Viewed:
    """What a view found: a tree of scopes, nodes or lines, or a list of ops."""

    costs: Costs
    found: TreeNode | CodeView | OpView

    @property
    def shown(self) -> TreeNode | None:
        """The tree, if it is one."""
        if isinstance(self.found, CodeView):
            return self.found.shown
        return self.found if isinstance(self.found, TreeNode) else None


def viewed(profile: GraphProfile, view: str, choice: ViewOptions) -> Viewed:
    """Return what `view`, one of scope, graph, op and code, shows of the step of the choice."""
    of_step = costs(profile, choice.step)
    views: dict[str, Callable[..., TreeNode | CodeView | OpView]] = {
        "code": code,
        "graph": graph,
        "op": op,
        "scope": scope,
    }
    return Viewed(of_step, views[view](profile, of_step, choice))


def body(
    profile: GraphProfile, seen: Viewed, choice: ViewOptions, remark: Callable[[str], None]
) -> str:
    """Return the body of its report; `remark` is called for values that cannot be read."""
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


VIEWS: Mapping[str, str] = {
    "code": "Ops by the lines of Python that made them; each line with all that it calls.",
    "graph": "Ops along the edges of the graph; each op with those that it takes its inputs from.",
    "op": "Ops by type; shares are of all, first with what follows in the list, then alone.",
    "scope": "Ops by name scope; each scope with all that is inside it.",
}
_COLUMNS: Mapping[str, str] = {
    "accelerator_micros": "accelerator execution time: kernels on the device.",
    "bytes": "requested bytes: memory asked of allocators, over all runs.",
    "cpu_micros": "cpu execution time: the op on its thread; for an op of a device, its launch.",
    "device": "assigned devices: where the op was placed.",
    "float_ops": "float_ops: arithmetic of all runs; 0 where no formula or shape is known.",
    "input_shapes": "input shapes: of each input by its number.",
    "micros": "total execution time: accelerator and cpu time; they may overlap.",
    "occurrence": "op count: how often it ran, and how often it is defined.",
    "op_types": "op types: the op, its device, and what the op log says of it.",
    "output_bytes": "output bytes: memory of its outputs, whoever allocated it.",
    "params": "parameters: numbers in a variable.",
    "peak_bytes": "peak bytes: the most it held while it ran.",
    "residual_bytes": "residual bytes: what it still held afterwards.",
    "tensor_value": "tensor value: from a checkpoint.",
}


def explanations(view: str, choice: ViewOptions) -> str:
    """Return the lines above a report, the last of them empty."""
    return "".join(f"{line}\n" for line in _lines(view, choice))


def _lines(view: str, choice: ViewOptions) -> Iterator[str]:
    yield f"{view}: {VIEWS[view]}"
    for name in sorted(set(choice.select)):
        if name in _COLUMNS:
            yield _COLUMNS[name]
    yield ""
