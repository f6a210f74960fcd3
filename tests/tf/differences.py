"""Compare our answers about a profile with those of tfprof's engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.tf.engine import Ask, Engine, Said
from tests.tf.profiles import Case
from tests.unit.tfprof.engine import body_of, choice
from tfprobe.analysis.core.names import compile_patterns
from tfprobe.analysis.ops.code_view import ROOT, code
from tfprobe.analysis.ops.cost_tree import ViewOptions
from tfprobe.analysis.ops.tfprof_records import costs
from tfprobe.errors import NoAnswer
from tfprobe.export.profile_proto import profile_proto
from tfprobe.formats.graph_profile import GraphProfileBuilder
from tfprobe.formats.profile_proto import graph_profile
from tfprobe.profile.records import GraphProfile
from tfprobe.tfprof import results
from tfprobe.tfprof.advice import CHECKERS, advise
from tfprobe.tfprof.options import Options, Output
from tfprobe.tfprof.report import answer, explanations

ADVICE: Ask = ("advise", dict.fromkeys(CHECKERS))


def differences(engine: Engine, case: Case) -> list[str]:
    """Return what differs, in words; nothing where the engine gave no answer that we know of."""
    found, profile = [], _profile(case)
    asks = (*case.asks, ADVICE)
    built, said = engine.from_files(
        case.graph, case.op_log, [step.parts for step in case.steps], asks
    )
    if built.errors is not None:
        return [f"the engine ended: {built.errors}"]
    count = len(profile.graph.nodes)
    if built.coverage and round(built.coverage[-1] * count) != profile.covered:
        found.append(f"coverage {built.coverage[-1]} but ours {profile.covered} of {count}")
    found += _differing("from files", profile, asks, said)
    if built.profile is not None:
        found += _differing("from its profile", graph_profile(built.profile), asks, said)
    with_outputs = replace(profile, graph=replace(profile.graph, minds_outputs=True))
    for source, written in (
        ("from our profile", profile_proto(profile)),
        ("from a profile with outputs, as TensorFlow 1 writes", profile_proto(with_outputs)),
    ):
        built, said = engine.from_profile(written, asks)
        found += _differing(source, graph_profile(written), asks, said)
    return found


def _profile(case: Case) -> GraphProfile:
    builder = GraphProfileBuilder()
    builder.add_graph(case.graph)
    builder.add_op_log(case.op_log)
    for step in case.steps:
        builder.add_graph(step.graph)
        builder.add_step(step.number, step.metadata)
        builder.add_op_log(step.op_log)
    return builder.profile()


def _differing(
    source: str, profile: GraphProfile, asks: Sequence[Ask], said: Sequence[Said]
) -> list[str]:
    found = []
    for (view, options), theirs in zip(asks, said, strict=True):
        what = _difference(profile, view, options, theirs)
        if what:
            found.append(f"{source}, {view} {options}: {what}")
    return found


def _difference(
    profile: GraphProfile, view: str, options: Mapping[str, Any], theirs: Said
) -> str | None:
    if theirs.errors is not None:
        known = _ends_the_engine(profile, view, options)
        return None if known else f"the engine ended: {theirs.errors}"
    if view == "advise":
        advice = results.advice(advise(profile, options).reports)
        return _unequal(advice, results.AdviceProto.FromString(theirs.message))
    expected = theirs.files or body_of(theirs.stdout)
    text, message = _answer(profile, view, options)
    if text != expected or message is None:
        # Without an answer the engine's message is what is left of an earlier one.
        return _unequal(text or None, expected)
    return _unequal(message, type(message).FromString(theirs.message))


def _unequal(ours: Any, theirs: Any) -> str | None:
    return None if ours == theirs else f"\n{ours}\nbut the engine\n{theirs}"


def _answer(
    profile: GraphProfile, view: str, options: Mapping[str, Any]
) -> tuple[str | dict[str, str] | None, Any]:
    """Return the body of our report, or the timelines by name, and the message.

    Both are None where we have no answer.
    """
    chosen = choice(options)
    with TemporaryDirectory() as folder:
        output = Output("timeline", {"outfile": f"{folder}/t"}) if "output" in options else Output()
        try:
            found = answer(profile, view, Options(chosen, output))
        except NoAnswer:
            return None, None
        files = {path.name: path.read_text() for path in Path(folder).iterdir()}
    text = found.text.removeprefix(explanations(view, chosen))
    message = results.message(profile, found.viewed) if found.viewed else results.empty(view)
    return (files if "output" in options else text), message


def _ends_the_engine(profile: GraphProfile, view: str, options: Mapping[str, Any]) -> bool:
    """Whether the engine is known to end its process: on a code view without any line of its own
    (it drops gradients without a forward op), of no depth at all, or whose root is trimmed. To
    advise it makes a code view, too.
    """
    if view not in ("advise", "code"):
        return False
    if compile_patterns(options.get("trim_name_regexes", ())).any_matches(ROOT):
        return True
    chosen = ViewOptions(max_depth=2, as_engine=True)
    lines = code(profile, costs(profile, -1), chosen).shown.children
    return not lines or options.get("max_depth", 1) < 1
