"""`tfprobe tfprof`: the flags, the shell and the reports of TensorFlow's old profiler program."""

from __future__ import annotations

import functools
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from tfprobe.cli.main import complain
from tfprobe.errors import UnreadableInput, UsageError

if TYPE_CHECKING:
    from tfprobe.profile.records import GraphProfile
    from tfprobe.tfprof.options import Options

T = TypeVar("T")
FILES = ("profile_path", "graph_path", "run_meta_path", "op_log_path", "checkpoint_path")


@dataclass(slots=True)
class _Request:
    """What the command line says: which files, which options, which view."""

    files: dict[str, str] = field(default_factory=dict)
    option_words: list[str] = field(default_factory=list)
    view: str | None = None


@click.command(
    "tfprof",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def command(words: tuple[str, ...]) -> int:
    """Behave as TensorFlow's old `profiler` program, with the same files."""
    if not words or words[0] == "help" or any(word in ("-h", "--help") for word in words):
        sys.stdout.write(_help())
        return 0
    from tfprobe.cli import common
    from tfprobe.tfprof.options import Options, parse
    from tfprobe.tfprof.shell import Shell, serve

    request = _parsed(words)
    options: Options = parse(request.option_words, Options())
    with common.progress("Reading files"):
        profile = _with_tensors(_profile(request.files), request.files)
    if request.view is None:
        serve(Shell(profile, options), sys.stdout.write, sys.stderr.write)
        return 0
    text, remarks = _answered(profile, request.view, options)
    for remark in remarks:
        complain(remark)
    sys.stdout.write(text)
    return 0


def _answered(profile: GraphProfile, view: str, options: Options) -> tuple[str, tuple[str, ...]]:
    from tfprobe.tfprof.advice import advice_text, advise
    from tfprobe.tfprof.report import answer

    if view == "advise":
        advice = advise(profile)
        return advice_text(advice), advice.remarks
    document = answer(profile, view, options)
    return document.text, document.remarks


def _parsed(words: Sequence[str]) -> _Request:
    from tfprobe.tfprof.options import read_option

    request, at = _Request(), 0
    while at < len(words):
        name, has_value, value = words[at].lstrip("-").partition("=")
        if not words[at].startswith("-"):
            if request.view is not None:
                raise UsageError(
                    f"Only one view can be shown at a time, not {request.view} and {words[at]}."
                )
            request.view = words[at]
            at += 1
        elif name in FILES:
            if not has_value and at + 1 == len(words):
                raise UsageError(f"Option --{name} requires a value.")
            request.files[name] = value if has_value else words[at + 1]
            if not request.files[name]:
                raise UsageError(f"Option --{name} requires a value.")
            at += 1 if has_value else 2
        else:
            end = read_option(words, at)[2]
            request.option_words += words[at:end]
            at = end
    return request


def _profile(files: dict[str, str]) -> GraphProfile:
    from tfprobe.formats.graph_profile import GraphProfileBuilder
    from tfprobe.formats.profile_proto import graph_profile

    if "profile_path" in files:
        if files.keys() - {"profile_path", "checkpoint_path"}:
            raise UsageError(
                "--profile_path has the graph and all steps; other files cannot be added."
            )
        return _reading(files["profile_path"], graph_profile)
    if "graph_path" not in files:
        raise UsageError(
            "No profile was given.",
            hint="Use --profile_path=FILE, or --graph_path=FILE [--run_meta_path=FILE,...] "
            "[--op_log_path=FILE].",
        )
    builder = GraphProfileBuilder()
    _reading(files["graph_path"], builder.add_graph)
    if "op_log_path" in files:
        _reading(files["op_log_path"], builder.add_op_log)
    for step, path in enumerate(filter(None, files.get("run_meta_path", "").split(","))):
        _reading(path, functools.partial(builder.add_step, step))
    return builder.profile()


def _with_tensors(profile: GraphProfile, files: dict[str, str]) -> GraphProfile:
    from tfprobe.formats.checkpoint import Checkpoint, with_checkpoint

    if "checkpoint_path" not in files:
        return profile
    return with_checkpoint(profile, Checkpoint(files["checkpoint_path"]))


def _reading(path: str, use: Callable[[bytes], T]) -> T:
    """Return what `use` makes of a file; an error says which file it is about."""
    try:
        content = Path(path).read_bytes()
    except OSError as exc:
        raise UnreadableInput(f"{path} cannot be read: {exc.strerror}.") from exc
    try:
        return use(content)
    except UnreadableInput as exc:
        raise UnreadableInput(f"{path}: {exc.problem}.", hint=exc.hint) from exc


def _help() -> str:
    from tfprobe.tfprof.options import NAMES

    options = textwrap.fill(", ".join(NAMES), initial_indent="  ", subsequent_indent="  ")
    return (
        "Usage: tfprobe tfprof --profile_path=FILE [OPTIONS] [VIEW]\n"
        "       tfprobe tfprof --graph_path=FILE [--run_meta_path=FILE,...]\n"
        "                      [--op_log_path=FILE] [OPTIONS] [VIEW]\n\n"
        "  Behave as TensorFlow's old `profiler` program.\n\n"
        "  VIEW is scope, graph, code, op or advise. Without one, the tfprof> shell\n"
        "  starts; it also reads commands from a pipe, one per line. To show the tensors\n"
        "  of a checkpoint, use --checkpoint_path=PREFIX and -select tensor_value.\n\n"
        f"Options, as --name=value or -name value:\n{options}\n"
    )
