"""The commands by name. Each has its own module, imported only when it runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

import click

import tfprobe
from tfprobe.errors import UsageError

_ABORTED = 130


class Entry(NamedTuple):
    """A command: module `tfprobe.cli.<module>` holds it as `command`, or by its own name."""

    name: str
    module: str
    summary: str


GROUPS: tuple[tuple[str, tuple[Entry, ...]], ...] = (
    (
        "Record",
        (
            Entry("run", "record.run", "Run a command and record it."),
            Entry(
                "capture", "record.capture", "Record a running job through its profiler service."
            ),
            Entry("try", "record.try_fixes", "Apply fixes to a job and measure what they win."),
            Entry("doctor", "record.doctor", "Check whether a run would record here."),
        ),
    ),
    (
        "Read",
        (
            Entry("ls", "read.ls", "List runs, newest first."),
            Entry("report", "read.report", "Show what a run did and where its time went."),
            Entry(
                "advise", "read.advise", "Suggest optimizations, with evidence and upper bounds."
            ),
            Entry(
                "breakdown",
                "read.breakdown",
                "Show the input, host, bus and device time of a step.",
            ),
            Entry("steps", "read.steps", "Show phases, step times and outliers."),
            Entry("input", "read.input", "Show why steps wait for input."),
            Entry("op", "read.views", "Show the cost of a step by type of op."),
            Entry("scope", "read.views", "Show the cost of a step by name scope or layer."),
            Entry("graph", "read.views", "Show the cost of a step along its graph."),
            Entry("code", "read.views", "Show the cost of a step by line of Python."),
            Entry("memory", "read.memory", "Show what uses memory, on devices and on the host."),
            Entry(
                "transfers", "read.transfers", "Show the copies, collectives and sends of a step."
            ),
            Entry("ranks", "read.ranks", "Compare the processes of a distributed job."),
            Entry("tiers", "read.tiers", "Show a run from application down to hardware."),
            Entry("stacks", "read.stacks", "Show sampled Python stacks by phase or thread."),
            Entry("sql", "read.sql", "Query runs in SQL."),
        ),
    ),
    (
        "Live",
        (
            Entry("top", "live.top", "Watch running jobs."),
            Entry("trace", "live.trace", "Trace the next steps of a running job."),
            Entry("metrics", "live.metrics", "Export metrics to Prometheus or OpenTelemetry."),
            Entry("ui", "live.ui", "Show runs in a browser."),
        ),
    ),
    (
        "Compare and share",
        (
            Entry("diff", "share.diff", "Compare runs, and tell a change from chance."),
            Entry("merge", "share.merge", "Merge runs that were recorded separately."),
            Entry("push", "share.push", "Copy a run to remote storage."),
            Entry("export", "share.export", "Convert a run for Perfetto, pprof, speedscope ..."),
        ),
    ),
    (
        "Files and the old tools",
        (
            Entry("rm", "files.rm", "Remove runs."),
            Entry("gc", "files.gc", "Remove old runs by number, age and size."),
            Entry("tfprof", "files.tfprof", "Behave as TensorFlow's old `profiler` program."),
            Entry("completion", "files.completion", "Print a shell completion script."),
        ),
    ),
)
COMMANDS = tuple(entry for _, entries in GROUPS for entry in entries)


class Commands(click.Group):
    """A group that knows its commands' names and summaries without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Give the names in the order of the help page."""
        return [entry.name for entry in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import the command with this name."""
        entry = next((entry for entry in COMMANDS if entry.name == cmd_name), None)
        if entry is None:
            return None
        module = importlib.import_module(f"tfprobe.cli.{entry.module}")
        command: click.Command = getattr(module, "command", None) or getattr(module, entry.name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the summaries from the table, not from the modules."""
        width = max(len(entry.name) for entry in COMMANDS)
        for title, entries in GROUPS:
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", summary) for name, _, summary in entries])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tfprobe.__version__, prog_name="tfprobe")
def tfprobe_group() -> None:
    """Record a training job without changing it, and analyze the recording.

    \b
    tfprobe run -- python train.py
    tfprobe report
    """


# Former names of options, which scripts may still have. Remove in 1.0.
FORMER = {"--work": "--loop"}


def with_current_names(arguments: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return arguments with options by their names of today, and the former names among them."""
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    former = []
    for index, word in enumerate(words[:end]):
        name, equals, value = word.partition("=")
        if name in FORMER:
            words[index] = f"{FORMER[name]}{equals}{value}"
            former.append(name)
    return words, tuple(dict.fromkeys(former))


def main(arguments: list[str]) -> int:
    """Run one command and give its exit status; click's own errors become ours."""
    words, former = with_current_names(arguments)
    for name in former:
        click.echo(f"tfprobe: {name} is deprecated; use {FORMER[name]}.", err=True)
    try:
        status = tfprobe_group.main(words, prog_name="tfprobe", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as help_page:
        sys.stdout.write(help_page.format_message() + "\n")
        return UsageError.exit_code
    except click.UsageError as problem:
        where = problem.ctx.command_path if problem.ctx else "tfprobe"
        raise UsageError(problem.format_message(), hint=f"See `{where} --help`.") from problem
    except click.Abort:
        return _ABORTED
    return status if isinstance(status, int) else 0
