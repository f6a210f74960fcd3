"""Tell which processes of a distributed job are numbered in one row."""

from __future__ import annotations

WORKERS = "workers"
# Where problems lie that are of ranks: who is absent, who is there twice. Nothing is lost by them.
RANKS = "ranks"
# Launchers that know no roles tell none, or that all are workers.
_NUMBERED_TOGETHER = ("chief", "master", "worker")


def team(role: str | None) -> str:
    """Return whose row it is: WORKERS, or a role that counts from 0 on by itself."""
    return WORKERS if not role or role in _NUMBERED_TOGETHER else role
