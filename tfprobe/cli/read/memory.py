"""`tfprobe memory`: what holds memory, on devices at the peak of a step, and on the host."""

from __future__ import annotations

from typing import Any

import click

from tfprobe.analysis.memory.memory_peak import GROUP_KEYS, GroupKey
from tfprobe.cli import common
from tfprobe.errors import Missing, NoAnswer


@click.command("memory")
@common.loop_option
@common.rank_option
@click.option(
    "--by",
    type=click.Choice(GROUP_KEYS),
    default="op",
    show_default=True,
    metavar="KEY",
    help=f"Group memory by {', '.join(GROUP_KEYS[:-1])} or {GROUP_KEYS[-1]}.",
)
@common.run_argument
def command(
    run: str, output: str | None, as_json: bool, loop: str, rank: int | None, by: GroupKey
) -> int:
    """Show what uses memory: each allocator at its peak, and the host over time.

    RUN is a directory, a run id, or `latest`, the default; or a file that `tfprobe op` reads. The
    answer is about one loop, in all processes that ran it.
    """
    from tfprobe.analysis.core.source_lines import Origins
    from tfprobe.analysis.memory.host_memory import host_memory
    from tfprobe.analysis.memory.memory_summary import lasting, memories
    from tfprobe.cli import loop_selection

    found = loop_selection.read(run, output, loop=loop, rank=rank, needs_steps=False)
    allocators = memories(found.profile, found.sampled, Origins(found.sampled), by)
    variables, hosts = lasting(found.sampled), host_memory(found.whole)
    if as_json:
        from tfprobe.report.documents.document import published
        from tfprobe.report.documents.memory_document import memory_document

        head: dict[str, Any] = {"schema": "tfprobe.memory/1", "run": found.source, "by": by}
        common.show_json(published(head | memory_document(allocators, variables, hosts)))
    if isinstance(allocators, Missing) and isinstance(hosts, Missing):
        raise NoAnswer(f"{found.source} has no memory data: {allocators.reason}.")
    if not as_json:
        from tfprobe.report.text.memory import render_memory

        width, colour = common.page_width(), common.page_colour()
        common.show_page(
            render_memory(found.loop, allocators, variables, hosts, by, width=width, colour=colour)
        )
    return 0
