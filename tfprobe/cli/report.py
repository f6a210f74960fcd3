"""`tfprobe report`: what a run did and where its time went."""

from __future__ import annotations

import click

from tfprobe.cli import reading
from tfprobe.errors import NoAnswer


@click.command("report")
@reading.run_argument
@click.option("--md", "markdown", metavar="FILE", help="Write Markdown to FILE instead.")
@click.option("--rank", type=int, metavar="R", help="Only the processes of this rank.")
def command(
    run: str, output: str | None, as_json: bool, markdown: str | None, rank: int | None
) -> int:
    """Say what a run did and where its time went.

    RUN is a directory, a run id, or `latest`, the default. The status is 1 when nothing was
    recorded; the report says why.
    """
    # Imported here: `tfprobe --help` should not wait for numpy.
    from tfprobe.advice import engine
    from tfprobe.ingest.run import load
    from tfprobe.ingest.sampled import dearest
    from tfprobe.store.liveness import this_machine
    from tfprobe.views.report import document, gather

    folder = reading.chosen_run(run, output)
    with reading.progress("Reading captures") as watch:
        profile = load(folder, this_machine(), rank=rank, watch=watch)
    report = gather(profile)
    advice = engine.advise(profile, dearest(folder, profile))
    if as_json:
        reading.show_json(document(report, engine.document(advice)["findings"]))
    if markdown is not None:
        from tfprobe.terminal.markdown import lay_out as lay_out_markdown

        reading.write_file(markdown, lay_out_markdown(report, advice))
    if not as_json and markdown is None:
        from tfprobe.terminal.report import lay_out

        text = lay_out(report, advice, width=reading.page_width(), colour=reading.page_colour())
        reading.show(text)
    has_steps = any(process.works for process in report.processes)
    return 0 if has_steps or report.run.is_live else NoAnswer.exit_code
