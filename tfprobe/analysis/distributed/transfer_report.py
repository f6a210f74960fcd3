"""Collect everything that moves in the traced steps of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfprobe.analysis.core.source_lines import By, Origins
from tfprobe.analysis.distributed.collectives import Collectives, collectives
from tfprobe.analysis.transfers.bus_transfers import Transfers, transfers
from tfprobe.analysis.transfers.sends import Sends, sends
from tfprobe.errors import Missing
from tfprobe.profile.graph import TracedLoop
from tfprobe.profile.profile import Loop, Profile


@dataclass(frozen=True, slots=True)
class TransferReport:
    """What `steps` traced steps of a loop moved, in `processes` processes."""

    loop: Loop
    steps: int
    processes: int
    transfers: Transfers | Missing
    collectives: Collectives | Missing
    sends: tuple[Sends, ...] | Missing

    @property
    def has_nothing(self) -> bool:
        """Return whether nothing at all is known to have moved."""
        parts = (self.transfers, self.collectives, self.sends)
        return all(isinstance(part, Missing) for part in parts)


def report_transfers(
    profile: Profile, loops: Sequence[TracedLoop], origins: Origins, by: By
) -> TransferReport:
    """Return what the loops moved, which are one loop in several processes; copies count by `by`.

    `profile` holds the captures of these loops alone.
    """
    return TransferReport(
        loop=loops[0].loop,
        steps=len(profile.captures),
        processes=len(loops),
        transfers=transfers(profile, origins, by),
        collectives=collectives(profile, origins),
        sends=sends(profile, origins),
    )
