"""`tfprobe tiers`: a run in four tiers, from what the program does to what it runs on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfprobe.cli import common
from tfprobe.errors import NoAnswer

if TYPE_CHECKING:
    from tfprobe.profile.profile import Profile


@click.command("tiers")
@common.rank_option
@common.run_argument
def command(run: str, output: str | None, as_json: bool, rank: int | None) -> int:
    """Show a run in four tiers: application, framework, runtime, hardware.

    RUN is a directory, a run id, or `latest`, the default; or a file that `tfprobe op` reads, which
    has no application and hardware tiers. The application tier is what each process did, the
    framework tier its ops, the runtime tier its driver calls, and the hardware tier how far it used
    the machine and its accelerators.
    """
    from tfprobe.analysis.core import no_data_reasons
    from tfprobe.report.documents.document import published
    from tfprobe.report.documents.tiers import gather_tiers, tiers_document

    profile = _profile(run, output, rank)
    tiers = gather_tiers(profile)
    if as_json:
        common.show_json(published(tiers_document(tiers)))
    common.warn_of_problems(profile)
    if tiers.is_empty:
        hint = " ".join(no_data_reasons.explain(profile))
        raise NoAnswer(f"Run {profile.run.id} has no data for any tier.", hint=hint)
    if not as_json:
        from tfprobe.report.text.tiers import render_tiers

        common.show_page(
            render_tiers(tiers, width=common.page_width(), colour=common.page_colour())
        )
    return 0


def _profile(run: str, output: str | None, rank: int | None) -> Profile:
    from tfprobe.profile.reader.file import file_profile
    from tfprobe.profile.reader.run_reader import load
    from tfprobe.runs.liveness import this_machine

    if Path(run).is_file():
        return file_profile(Path(run))
    folder = common.chosen_run(run, output)
    with common.progress("Reading captures") as watch:
        return load(folder, this_machine(), rank=rank, with_memory=False, watch=watch)
