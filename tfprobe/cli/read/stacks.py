"""`tfprobe stacks`: what Python ran from exec to exit, read from outside."""

from __future__ import annotations

import click

from tfprobe.cli import common
from tfprobe.errors import NoAnswer

_LEAST_OF_TEXT, _LEAST_OF_JSON = 3.0, 1.0


@click.command("stacks")
@click.option("--threads", is_flag=True, help="Show a tree for each thread instead of each phase.")
@click.option("--least", type=click.FloatRange(0, 100), metavar="PCT",
              help="Leave out calls below this share.  [default: 3, with --json 1]")  # fmt: skip
@common.rank_option
@common.run_argument
def command(
    run: str,
    output: str | None,
    as_json: bool,
    threads: bool,
    least: float | None,
    rank: int | None,
) -> int:
    """Show what Python ran, as a tree of calls for each phase, and for steps and gaps.

    RUN is a directory, a run id, or `latest`, the default. It must have been recorded with
    `tfprobe run --stacks`. Phases and steps are those of the thread that runs the main loop. Calls
    into installed packages that only pass their time on are left out.
    """
    from tfprobe.analysis.system.stack_samples import process_trees
    from tfprobe.profile.reader.run_reader import load
    from tfprobe.report.documents.document import published
    from tfprobe.report.documents.stacks_document import stacks_document
    from tfprobe.runs.liveness import this_machine

    folder = common.chosen_run(run, output)
    profile = load(folder, this_machine(), rank=rank, with_captures=False)
    trees = process_trees(profile)
    default = _LEAST_OF_JSON if as_json else _LEAST_OF_TEXT
    least_ratio = (default if least is None else least) / 100
    if as_json:
        common.show_json(published(stacks_document(profile.run.id, trees, least_ratio)))
    common.warn_of_problems(profile)
    if not trees:
        reasons = [text for stack in profile.stacks for text in stack.refusals]
        hint = "; ".join(reasons) or "Record with `tfprobe run --stacks -- COMMAND`."
        raise NoAnswer(f"Run {profile.run.id} has no stacks.", hint=hint)
    if not as_json:
        from tfprobe.report.text.stacks import render_stacks

        text = render_stacks(
            trees,
            by_thread=threads,
            least_ratio=least_ratio,
            width=common.page_width(),
            colour=common.page_colour(),
        )
        common.show_page(text)
    return 0
