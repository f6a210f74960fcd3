"""`tfprobe trace`: a running job records its next steps."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfprobe.cli import common
from tfprobe.errors import Missing, NoAnswer, TfprobeError, UnreadableInput, UsageError
from tfprobe.launch import environ
from tfprobe.runs.layout import LATEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfprobe.live.trace_requests import TraceRequest
    from tfprobe.profile.snapshots import ProcessAnswer
    from tfprobe.runs.layout import RunFolder

# A step that is under way has to end before a process can answer.
ANSWER_PATIENCE_S = 10.0
# Steps of large jobs take seconds, and so do evaluations between them.
CAPTURE_PATIENCE_S = 60.0
_ENDED_HINT = "`tfprobe ls --state running` lists running jobs."


@click.command("trace")
@click.argument("run", default=common.default_run, metavar="[RUN[/PID]]")
@click.option(
    "--steps",
    type=int,
    default=10,
    show_default=True,
    metavar="N",
    help="Trace N steps in each process.",
)
@click.option(
    "--loop",
    default="",
    metavar="TEXT",
    help="Trace only the loop with this index, or whose kind and name contain TEXT.",
)
@click.option("--wait", is_flag=True, help="Wait until all captures are on disk.")
@click.option(
    "--timeout",
    type=float,
    metavar="S",
    help="Give up after S seconds without progress.  [default: 10, with --wait 60]",
)
@common.output_option
@common.json_option
def command(
    run: str,
    steps: int,
    loop: str,
    wait: bool,
    timeout: float | None,
    output: str | None,
    as_json: bool,
) -> int:
    """Trace the next steps of a running job.

    The request goes to all processes of RUN, or to one: PID is a process id, HOST/PID, or the name
    of a process folder. The exit status is 0 if all processes that answered accepted the request
    and, with --wait, traced all of its steps. It is 1 if one did not, or if none answered.
    """
    from tfprobe.live.trace_requests import request_traces
    from tfprobe.runs.liveness import this_machine

    if timeout is not None and not (math.isfinite(timeout) and timeout >= 0):
        raise UsageError(f"--timeout {timeout} is not a duration.", hint="Use a number of seconds.")
    folder, pid = _target(run, output)
    try:
        request = request_traces(folder, this_machine(), steps=steps, pid=pid, loop=loop)
        answers = _followed(request, wait=wait, timeout_s=timeout)
    except KeyboardInterrupt:
        from tfprobe.cli.main import complain

        complain("Interrupted. The request stays in effect until another one replaces it.")
        raise
    _show(request, answers, as_json=as_json)
    return _status(answers, wait=wait)


def _target(wanted: str, output: str | None) -> tuple[RunFolder, str]:
    """Split RUN, RUN/PID or RUN/HOST/PID, where RUN may be a path."""
    if common.is_url(wanted):
        hint = "Run this on a machine that has its run directory."
        raise UsageError("Traces cannot be requested through remote storage.", hint=hint)
    try:
        return common.chosen_run(wanted, output), ""
    except UnreadableInput:
        parts = wanted.rstrip(os.sep).split(os.sep)
        for count in (1, 2):
            run = os.sep.join(parts[:-count])
            folder = _run_itself(run, output) if run else None
            if folder is not None:
                return folder, os.sep.join(parts[-count:])
        raise


def _run_itself(run: str, output: str | None) -> RunFolder | None:
    """Return the run of this name; a directory of runs is none here, where a pid follows."""
    try:
        folder = common.chosen_run(run, output)
    except TfprobeError:
        return None
    named = (
        environ.absolute(Path(run)).resolve(),
        (common.output_directory(output) / run).resolve(),
    )
    return folder if run == LATEST or folder.root in named else None


def _followed(
    request: TraceRequest, *, wait: bool, timeout_s: float | None
) -> tuple[ProcessAnswer, ...]:
    patience_s = CAPTURE_PATIENCE_S if wait else ANSWER_PATIENCE_S
    what = f"Waiting for {request.steps} steps" if wait else "Waiting for an answer"

    def count(answers: Sequence[ProcessAnswer]) -> None:
        sent = [answer for answer in answers if not isinstance(answer.request, Missing)]
        watch(sum(len(answer.captures) for answer in sent), request.steps * len(sent))

    with common.progress(what) as watch:
        return request.follow(
            until_met=wait,
            patience_s=patience_s if timeout_s is None else timeout_s,
            tell=count,
        )


def _show(request: TraceRequest, answers: Sequence[ProcessAnswer], *, as_json: bool) -> None:
    from tfprobe.live.trace_requests import document
    from tfprobe.profile.snapshots import RequestAnswer
    from tfprobe.report.text.runs import reasons, render_trace_request

    if as_json:
        common.show_json(document(request, answers))
        return
    if all(isinstance(answer.request, Missing) for answer in answers):
        raise NoAnswer(
            f"No process of run {request.run.id} got the request: {'; '.join(reasons(answers))}.",
            hint=_ENDED_HINT
            if all(answer.answer is RequestAnswer.ENDED for answer in answers)
            else "",
        )
    common.show_page(
        render_trace_request(
            request.run.id,
            request.steps,
            answers,
            width=common.page_width(),
            colour=common.page_colour(),
        )
    )


def _status(answers: Sequence[ProcessAnswer], *, wait: bool) -> int:
    from tfprobe.profile.snapshots import RequestAnswer

    silent = (RequestAnswer.NONE, RequestAnswer.ENDED, RequestAnswer.NOT_SENT)
    answered = [answer for answer in answers if answer.answer not in silent]
    good = all(each.is_met if wait else each.answer is RequestAnswer.TAKEN for each in answered)
    return 0 if answered and good else 1
