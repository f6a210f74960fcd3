"""What commands share that may ask many processes: who works, by --workers and --dask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tfprobe.errors import UsageError

if TYPE_CHECKING:
    from tfprobe.query.runners import Runner
    from tfprobe.runs.layout import RunFolder

# Two workers are ready after about half a second. Below this much of captures one process has read
# them by then: see docs/scale.md.
PAYS_FROM_BYTES = 32_000_000


@dataclass(frozen=True, slots=True)
class Workers:
    """Who is to work, as the command line says it."""

    count: int | None
    dask: str | None

    def on(self, folder: RunFolder) -> Callable[[int, int], Runner]:
        """Return what chooses who works on so many shards of a run, of so many bytes of captures.

        Raises UsageError where both options exclude each other.
        """
        if self.dask is not None:
            return self._cluster(self.dask, folder)

        def choose(shards: int, capture_bytes: int) -> Runner:
            from tfprobe.query.runners import Here, LocalProcesses, cpus

            count = self.count or (cpus() if capture_bytes >= PAYS_FROM_BYTES else 1)
            return LocalProcesses(count) if min(count, shards) > 1 else Here()

        return choose

    def _cluster(self, address: str, folder: RunFolder) -> Callable[[int, int], Runner]:
        from tfprobe.query.cluster import LOCAL, Cluster

        if self.count is not None and address != LOCAL:
            hint = "A cluster has the workers that it has. `--dask local` makes one of N."
            raise UsageError("--workers and a cluster's address exclude each other.", hint=hint)
        cluster = Cluster(address, self.count, must_see=(str(folder.root),))
        return lambda _shards, _capture_bytes: cluster


# Any: click's own type for commands.
def workers_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --workers and --dask, as `workers` and `dask`."""
    function = click.option(
        "--dask",
        metavar="ADDRESS",
        help="Let a Dask cluster read: its scheduler's address, or `local` for one made here.",
    )(function)
    return click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Let N processes read; default 1, and all CPUs where there is much to read.",
    )(function)
