"""Tell, of processes that say that they have a rank, who has it and who has only inherited it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """What a process that has a rank tells of itself. Its machine is told by whatever is equal."""

    machine: Hashable
    pid: int
    ppid: int | None
    is_fork: bool
    has_steps: bool


def heads(claims: Sequence[Claim]) -> list[int]:
    """Return which of the claims to one rank count, by their positions.

    Left out are who was started by another of them, and who has no steps, as the TensorBoard that
    a rank's script starts.
    """
    pids = {(each.machine, each.pid) for each in claims}
    return [
        at
        for at, each in enumerate(claims)
        if each.has_steps and not each.is_fork and (each.machine, each.ppid) not in pids
    ]
