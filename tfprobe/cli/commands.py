"""The commands by name. Each lives in its own module, imported only when it is asked for."""

from __future__ import annotations

import importlib
import sys
from typing import NamedTuple

import click

import tfprobe
from tfprobe.errors import UsageError

_ABORTED = 130


class Entry(NamedTuple):
    """A command: module `tfprobe.cli.<name>` holds it as `command`."""

    name: str
    summary: str


COMMANDS: tuple[Entry, ...] = (
    Entry("advise", "Say what of a run costs time that could be won, and what to do about it."),
    Entry("breakdown", "Show what a step spends before, on and after the accelerator."),
    Entry("capture", "Record a running TensorFlow job through its profiler service."),
    Entry("code", "Show which lines of Python made the ops a step spends its time in."),
    Entry("completion", "Print the completion script of a shell."),
    Entry("diff", "Show what changed from one run to another, and whether that is chance."),
    Entry("doctor", "Tell whether a run would record here; if not, why, and what to do."),
    Entry("export", "Write a run as a file of another program: timeline, pprof, speedscope ..."),
    Entry("gc", "Remove old runs: by number, age or size."),
    Entry("graph", "Show which parts of the graph a step spends its time in."),
    Entry("input", "Show why steps wait for input: which stage, queue, feed or Python code."),
    Entry("ls", "List runs, newest first."),
    Entry("memory", "Show what holds memory: devices at their peak, the host over time."),
    Entry("merge", "Join runs that were recorded apart, one a host or one a rank, into one."),
    Entry("metrics", "Serve metrics of all runs to Prometheus, or send them by OTLP."),
    Entry("op", "Show which types of op a step spends its time in."),
    Entry("push", "Copy a run to remote storage: s3://, gs://, sftp:// ..."),
    Entry("ranks", "Show the processes of a job side by side: who is slow, who waits for whom."),
    Entry("report", "Say what a run did and where its time went."),
    Entry("rm", "Remove runs."),
    Entry("run", "Record a TensorFlow job, unchanged."),
    Entry("scope", "Show which name scopes, such as layers, a step spends its time in."),
    Entry("sql", "Ask runs in SQL: their steps, executions, allocations ... as tables."),
    Entry("stacks", "Show what Python ran, by phase and thread, as read from outside."),
    Entry("steps", "Show the steps of a run."),
    Entry("tfprof", "Answer as TensorFlow's old `profiler` program did, from its files."),
    Entry("tiers", "Show a run in four tiers: application, framework, runtime, hardware."),
    Entry("top", "Watch runs: which runs, how fast, and what they wait for."),
    Entry("trace", "Let a running job record its next steps."),
    Entry("transfers", "Show what a step moves: over the bus, between devices and ranks."),
    Entry("ui", "Show runs in a browser."),
)


class Commands(click.Group):
    """A group that knows its commands' names and summaries without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Give the names in the order of the help page."""
        return [entry.name for entry in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the one command that was asked for."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"tfprobe.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the summaries from the table, not from the modules."""
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, entry.summary) for entry in COMMANDS])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tfprobe.__version__, prog_name="tfprobe")
def tfprobe_group() -> None:
    """Record any TensorFlow job without changing it, and read the recording back.

    \b
    tfprobe run -- python train.py
    tfprobe report
    """


def main(arguments: list[str]) -> int:
    """Run one command and give its exit status; click's own errors become ours."""
    try:
        status = tfprobe_group.main(arguments, prog_name="tfprobe", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as help_page:
        sys.stdout.write(help_page.format_message() + "\n")
        return UsageError.exit_code
    except click.UsageError as problem:
        where = problem.ctx.command_path if problem.ctx else "tfprobe"
        raise UsageError(problem.format_message(), hint=f"See `{where} --help`.") from problem
    except click.Abort:
        return _ABORTED
    return status if isinstance(status, int) else 0
