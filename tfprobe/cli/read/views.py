"""What the commands op, scope, graph and code share: they differ in the view alone."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfprobe.cli import common, view_output
from tfprobe.errors import Missing, NoAnswer, UsageError

if TYPE_CHECKING:
    from tfprobe.analysis.ops.cost_tree import TreeNode, ViewOptions
    from tfprobe.analysis.ops.flops.count import Coverage
    from tfprobe.analysis.ops.op_stats import Costs
    from tfprobe.analysis.ops.op_view import OpView
    from tfprobe.profile.graph import TracedLoop
    from tfprobe.profile.profile import Loop, Profile
    from tfprobe.tfprof.options import Options

TITLES = {
    "op": "Ops by type",
    "scope": "Ops by scope",
    "graph": "Ops by the graph's edges, consumers above producers",
    "code": "Ops by the code that made them",
}
BY_LAYER_HELP = "Put gradients below the layer that they belong to, as (backward)."
# What an answer on a terminal starts from; tfprof's own is `-order_by name -max_depth 10`.
_DEFAULTS = ("-order_by", "micros", "-select", "micros,occurrence")
# What to do where no code is known, by the kind of the loop; of others the code map is missing.
_NO_CODE = {
    "file": "Of files, a ProfileProto, an XSpace of JAX and a trace of PyTorch (with_stack) may.",
    "service": "A profiler service never does: start the job with `tfprobe run`.",
}


def view_command(view: str, summary: str, details: str) -> click.Command:
    """Return the command of one view; `details` is a paragraph of its help."""

    @click.command(
        view,
        help=summary,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def command(words: tuple[str, ...]) -> int:
        if any(word in ("-h", "--help") for word in words):
            sys.stdout.write(_help(view, summary, details))
            return 0
        return _answer(view, _parsed(view, words))

    return command


@dataclass(slots=True)
class _Request:
    """What the command line says."""

    run: str = field(default_factory=common.default_run)
    output: str | None = None
    loop: str = ""
    rank: int | None = None
    as_json: bool = False
    by_layer: bool = False
    option_words: list[str] = field(default_factory=list)


def _parsed(view: str, words: Sequence[str]) -> _Request:
    from tfprobe.tfprof.options import read_option

    request, at, runs = _Request(), 0, 0
    while at < len(words):
        word = words[at]
        flag, has_value, value = word.partition("=")
        if word == "--json":
            request.as_json = True
            at += 1
        elif word == "--by-layer" and view == "scope":
            request.by_layer = True
            at += 1
        elif flag in ("-o", "--loop", "--rank"):
            if not has_value and at + 1 == len(words):
                raise UsageError(f"Option {flag} requires a value.")
            _take(request, flag, value if has_value else words[at + 1])
            at += 1 if has_value else 2
        elif word.startswith("-"):
            end = read_option(words, at)[2]
            request.option_words += words[at:end]
            at = end
        else:
            runs += 1
            request.run = word
            at += 1
    if runs > 1:
        raise UsageError("Only one run can be shown at a time.")
    return request


def _take(request: _Request, flag: str, value: str) -> None:
    if flag == "-o":
        request.output = value
    elif flag == "--loop":
        request.loop = value
    elif value.isdigit():
        request.rank = int(value)
    else:
        raise UsageError(f"Option --rank requires a whole number, not {value!r}.")


def _answer(view: str, request: _Request) -> int:
    from tfprobe.analysis.core.names import by_layer
    from tfprobe.analysis.ops.cost_tree import ViewOptions
    from tfprobe.analysis.ops.flops.count import accessed_ratio, count, coverage
    from tfprobe.analysis.ops.op_stats import step_costs
    from tfprobe.analysis.ops.op_view import as_executed
    from tfprobe.tfprof.options import Options, parse

    options: Options = parse([*_DEFAULTS, *request.option_words], Options(choice=ViewOptions()))
    view_output.check(view, options.output, as_json=request.as_json)
    _check_choice(options.choice)
    everything = request.as_json or options.output.kind == "pprof"
    wanted = ("float_ops", "accessed_bytes", "params")
    with_float_ops = everything or any(_needs(options.choice, name) for name in wanted)
    with_memory = everything or _needs(options.choice, "bytes")
    source, found = _found(request, with_memory=with_memory, with_float_ops=with_float_ops)
    if found.programs:
        from tfprobe.analysis.ops.arguments import with_parameters

        found = with_parameters(found)
    choice = _without_idle(view, replace(options.choice, as_engine=False))
    _check(view, found, choice)
    float_ops = count(found) if with_float_ops else None
    known = coverage(found, float_ops, choice.step) if float_ops is not None else None
    accessed = accessed_ratio(found, float_ops, choice.step) if float_ops is not None else 0.0
    costs = step_costs(found, choice.step, float_ops)
    fusions = list(_fusions(view, found, costs))
    if request.by_layer:
        found = replace(found, graph=by_layer(found.graph))
    found = as_executed(found)
    shown, unplaced = _shown(view, found, costs, choice)
    remarks = list(_remarks(shown, choice, known, accessed, costs.rows[list(unplaced)].sum(axis=0)))
    remarks += [*fusions, *_unknown_parameters(found, choice)]
    if request.as_json:
        common.show_json(_document(view, source, found, shown, known))
    elif options.output.kind == "stdout":
        common.show_page(_text(view, found, shown, choice, remarks, to_file=False))
    else:
        text = functools.partial(_text, view, found, shown, choice, remarks, to_file=True)
        common.show(view_output.write(view, options.output, found, float_ops, choice, text))
    return 0


def found_sampled(run: str, output: str | None, *, rank: int | None) -> TracedLoop:
    """Return the traced steps of the loop with most time, or of a file, without float operations.

    Raises NoAnswer where none was sampled.
    """
    request = _Request(run=run, output=output, rank=rank)
    return _found(request, with_memory=False, with_float_ops=False)[1]


def _found(request: _Request, *, with_memory: bool, with_float_ops: bool) -> tuple[str, TracedLoop]:
    """Return what RUN names, a run or a file, and the sampled steps of the loop that is meant."""
    if _is_one_file(request.run):
        if request.loop or request.rank is not None:
            raise UsageError(f"--loop and --rank apply to runs, and {request.run} is a file.")
        with common.progress(f"Reading {request.run}"):
            from tfprobe.profile.reader.file import sampled_file

            return request.run, sampled_file(Path(request.run), with_shapes=with_float_ops)
    folder = common.chosen_run(request.run, request.output)
    with common.progress("Reading captures") as watch:
        from tfprobe.profile.reader.run_reader import load
        from tfprobe.profile.reader.traced_steps import sampled
        from tfprobe.runs.liveness import this_machine

        profile = load(
            folder,
            this_machine(),
            rank=request.rank,
            with_memory=with_memory,
            with_spans=False,
            watch=watch,
        )
    common.warn_of_problems(profile)
    loop = chosen_loop(profile, request.loop)
    return folder.id, sampled(folder, profile, loop, with_shapes=with_float_ops)


def _is_one_file(path: str) -> bool:
    """Say whether RUN names a file, or a pipe that one comes through."""
    return Path(path).exists() and not Path(path).is_dir()


def _without_idle(view: str, choice: ViewOptions) -> ViewOptions:
    """Leave nodes that never ran out of a tree, unless a column is selected that they have, too."""
    if view == "op" or "occurrence" in choice.least or "params" in choice.select:
        return choice
    return replace(choice, least={**choice.least, "occurrence": 1})


def _needs(choice: ViewOptions, metric: str) -> bool:
    """Say whether a metric whose name ends so is a column, has a least value, or orders."""
    named = (*choice.select, *choice.least, choice.order_by)
    return any(name.endswith(metric) for name in named)


def chosen_loop(profile: Profile, wanted: str) -> Loop:
    """Return the loop with this in its kind and name; of several, the one with most time."""
    from tfprobe.analysis.core import no_data_reasons
    from tfprobe.profile.reader.traced_steps import captures_of

    loops = [loop for loop in profile.loops if wanted in f"{loop.kind} {loop.name}"]
    if profile.loops and not loops:
        raise common.no_such_loop(wanted, (f"{loop.kind} {loop.name}" for loop in profile.loops))
    sampled = [loop for loop in loops if captures_of(loop, profile)]
    if not sampled:
        why = " ".join(no_data_reasons.explain(profile)) or "No step was traced."
        raise NoAnswer(f"Run {profile.run.id} has no ops to show.", hint=why)
    return max(sampled, key=lambda each: each.times.sum_ns)


def _check_choice(choice: ViewOptions) -> None:
    """Raise UsageError for a step that cannot be, or a regex that is none."""
    from tfprobe.analysis.core.names import compile_patterns

    if choice.step < -1:
        raise UsageError(
            f"-step {choice.step} is not a step.", hint="Use -1 for the average of all steps."
        )
    for name in ("account_type", "start_name", "trim_name", "show_name", "hide_name"):
        for text, why in compile_patterns(getattr(choice, f"{name}_regexes")).invalid:
            raise UsageError(f"-{name}_regexes: {text!r} is not a valid regular expression: {why}.")


def _check(view: str, found: TracedLoop, choice: ViewOptions) -> None:
    steps = sorted(capture.step for capture in found.captures)
    if choice.step >= 0 and choice.step not in steps:
        hint = f"Traced steps: {common.some(steps)}."
        raise NoAnswer(f"Step {choice.step} was not traced.", hint=hint)
    if view == "code" and not found.graph.has_traces:
        hint = "It has no code map: record with --every or --steps, or for longer."
        raise NoAnswer(
            "The recording does not say which code created these ops.",
            hint=_NO_CODE.get(found.loop.kind, hint),
        )
    if view == "graph" and not found.has_graph and not _has_calls(found):
        raise NoAnswer(
            "The recording has no graph of these steps.", hint="Use the scope or op view."
        )


def _has_calls(found: TracedLoop) -> bool:
    """Say whether ops of PyTorch called each other, which is what they have for a graph."""
    return any(node.call is not None and node.inputs for node in found.graph.nodes)


def _shown(
    view: str, found: TracedLoop, costs: Any, choice: ViewOptions
) -> tuple[TreeNode | OpView, tuple[int, ...]]:
    """Return a view, and the nodes that are at no place in it."""
    from tfprobe.analysis.ops.code_view import code
    from tfprobe.analysis.ops.op_view import op
    from tfprobe.analysis.ops.scope_view import graph, scope

    if view == "op":
        return op(found, costs, choice), ()
    if view == "code":
        by_line = code(found, costs, choice)
        return by_line.shown, by_line.unplaced
    return (scope if view == "scope" else graph)(found, costs, choice), ()


def _remarks(
    shown: Any, choice: ViewOptions, known: Coverage | None, accessed: float, unplaced: Any
) -> Iterator[str]:
    """Give notes below the table; `unplaced` has the costs that are not in it."""
    from tfprobe.analysis.ops.cost_tree import ACCESSED
    from tfprobe.analysis.ops.op_stats import AT
    from tfprobe.analysis.ops.op_view import OpView
    from tfprobe.report.format import numbers
    from tfprobe.report.text.costs import describe_accessed, describe_coverage

    if not (shown.entries if isinstance(shown, OpView) else shown.children):
        yield "Nothing else matches the options."
    if known is not None and "float_ops" in choice.select:
        yield describe_coverage(known)
    if ACCESSED in choice.select:
        yield describe_accessed(accessed)
    if unplaced[AT["time_ns"]]:
        time = numbers.duration(int(unplaced[AT["time_ns"]]))
        yield f"Not in this view: {time} of ops that were made at no known line."


def _fusions(view: str, found: TracedLoop, costs: Costs) -> Iterator[str]:
    """Say how much of the time is of fusions that belong to several scopes."""
    from tfprobe.analysis.ops.op_stats import AT
    from tfprobe.analysis.ops.scope_view import of_other_scopes
    from tfprobe.report.format import numbers

    if view != "scope":
        return
    mixed = [at for at, node in enumerate(found.graph.nodes) if of_other_scopes(node)]
    time_ns = int(costs.rows[mixed, AT["time_ns"]].sum())
    if time_ns:
        yield (
            "A fusion is in the scope of its root. "
            f"{numbers.duration(time_ns)} are of fusions with ops of other scopes in them; --json "
            "lists these."
        )


def _unknown_parameters(found: TracedLoop, choice: ViewOptions) -> Iterator[str]:
    """Say why a compiled program has no known parameters."""
    if "params" not in choice.select or not found.programs:
        return
    from tfprobe.analysis.ops.arguments import model_arguments
    from tfprobe.analysis.ops.op_stats import has_parameters

    known = model_arguments(found.programs)
    if isinstance(known, Missing) and not has_parameters(found):
        yield f"Parameters: unknown: {known.reason}."


def _text(
    view: str,
    found: TracedLoop,
    shown: Any,
    choice: ViewOptions,
    remarks: Sequence[str],
    *,
    to_file: bool,
) -> str:
    from tfprobe.report.text.costs import render_ops, render_tree

    render = render_ops if view == "op" else render_tree
    width = common.FILE_WIDTH if to_file else common.page_width()
    colour = not to_file and common.page_colour()
    title = TITLES[view]
    return render(found, title, shown, choice, remarks=remarks, width=width, colour=colour)


def _document(
    view: str, run: str, found: TracedLoop, shown: Any, known: Coverage | None
) -> dict[str, Any]:
    """Return the document of a view. Any: a JSON document."""
    from tfprobe.analysis.ops.op_view import in_graph

    loop = found.loop
    head = {
        "schema": f"tfprobe.{view}/1",
        "run": run,
        "work": {"kind": loop.kind, "name": loop.name, "count": loop.count},
        "sampled_steps": sorted(capture.step for capture in found.captures),
        "has_memory": found.has_memory,
        "float_ops_coverage": _coverage(known),
    }
    if view == "op":
        entries = [
            {
                "name": entry.name,
                "in_graph": in_graph(found.graph.nodes[at] for at in entry.members),
                "nodes": len(entry.members),
                "own": _row(found, entry.own),
            }
            for entry in shown.entries
        ]
        return {**head, "ops": entries}
    return {**head, "places": list(_places(found, shown))}


def _coverage(known: Coverage | None) -> dict[str, Any] | None:
    if known is None:
        return None
    unknown = [
        {"op": each.op, "reason": each.reason, "time_ratio": each.time_ratio}
        for each in known.unknown
    ]
    return {
        "float_ops": known.float_ops_ratio,
        "ops": known.ops_ratio,
        "time": known.time_ratio,
        "unknown": unknown,
    }


def _places(found: TracedLoop, shown: TreeNode) -> Iterator[dict[str, Any]]:
    """Give each place, parents first, with the number of its parent: flat, for it may be deep."""
    waiting: list[tuple[TreeNode, int | None]] = [(shown, None)]
    number = 0
    while waiting:
        each, parent = waiting.pop()
        place = {
            "name": each.branch.name,
            "parent": parent,
            "own": _row(found, each.branch.own),
            "total": _row(found, each.total),
        }
        nodes = (found.graph.nodes[at] for at in each.branch.members)
        fused = dict.fromkeys(op for node in nodes for op in node.fused)
        yield {**place, "fused": list(fused)} if fused else place
        waiting.extend((child, number) for child in reversed(each.children))
        number += 1


def _row(found: TracedLoop, row: Any) -> dict[str, int | None]:
    from tfprobe.analysis.ops.op_stats import AT, has_accessed_bytes, has_float_ops, known_columns

    known = {*known_columns(found, None)} | ({"float_ops"} if has_float_ops(row) else set())
    known |= {"accessed_bytes"} if has_accessed_bytes(row) else set()
    shown = [name for name in AT if not name.startswith("known_")]
    if not found.programs:
        shown.remove("accessed_bytes")  # nothing else says what it reads and writes
    return {name: int(row[AT[name]]) if name in known else None for name in shown}


def _help(view: str, summary: str, details: str) -> str:
    """Return the help page, laid out as click lays out those of the other commands."""
    options = [
        *([("--by-layer", BY_LAYER_HELP)] if view == "scope" else []),
        ("--loop TEXT", common.LOOP_HELP),
        ("--rank R", common.RANK_HELP),
        ("-o DIR", common.OUTPUT_HELP),
        ("--json", common.JSON_HELP),
        ("-h, --help", "Show this message and exit."),
    ]
    page = click.HelpFormatter()
    page.write_usage(f"tfprobe {view}", "[OPTIONS] [RUN|FILE]")
    page.write_paragraph()
    with page.indentation():
        page.write_text(f"{summary}\n\n{details}\n\n{_OPERAND_HELP}")
    with page.section("Options"):
        page.write_dl(options)
    page.write_paragraph()
    page.write_text(_TFPROF_HELP)
    return page.getvalue()


_OPERAND_HELP = (
    "RUN is a directory, a run id, or `latest`, the default. FILE is a RunMetadata, an XSpace "
    "(xplane.pb), a ProfileProto, a trace of PyTorch's profiler, or a timeline in JSON, from any "
    "program."
)
_TFPROF_HELP = (
    "All options of `tfprobe tfprof` work, too, such as -max_depth N, -order_by NAME, "
    "-select NAME,NAME, -show_name_regexes R, -min_micros N and -step N."
)

op = view_command(
    "op",
    "Show which types of op a step spends its time in.",
    "Shares are of all ops. Copies between host and device are entries of their own, an op in a "
    "loop counts each time it runs, and an op that ran on two devices has both. Unlike in tfprof, "
    "-min options apply to the entry itself, and the sum to the end of the list, which tfprof "
    "calls the total of an entry, is not shown.",
)

scope = view_command(
    "scope",
    "Show which name scopes, such as layers, a step spends its time in.",
    "Copies between host and device are below `copies`. Nodes that never ran are left out unless "
    "params are selected, or with -min_occurrence 0. Unlike in tfprof, a scope that "
    "-account_type_regexes leaves out adds nothing of its own, and -min options apply to totals.",
)

graph = view_command(
    "graph",
    "Show which parts of the graph a step spends its time in.",
    "Each op is below the first consumer that leads to it; of PyTorch, below the op that called "
    "it. Nodes that never ran are left out "
    "unless params are selected, or with -min_occurrence 0. Unlike in tfprof, -min options apply "
    "to totals.",
)

code = view_command(
    "code",
    "Show which lines of Python created the ops a step spends its time in.",
    "Gradients are below the line of their forward op, and marked. Nodes that never ran are left "
    "out unless params are selected, or with -min_occurrence 0. Unlike in tfprof, an op counts "
    "once however many patterns match it.",
)
