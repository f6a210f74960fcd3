"""What jobs of JAX printed and counted, and what was recorded of them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tf.laboratory import WAYS, Laboratory, Outcome

JOBS = Path(__file__).parent / "jobs"
# Jobs that are also recorded with the default budget, as users do: those like real programs.
TRACED_BY_BUDGET = (
    "compiling.py",
    "distributed.py",
    "forms.py",
    "libraries.py",
    "training.py",
    "waits.py",
)

_OWN_FRAME = re.compile(
    r'  File "[^"]*(/boot/tfprobe_agent/[^"]*|<frozen importlib._bootstrap_external>)",'
    r" line \d+, in \w+\n( {4}.*\n)?"
)


def outcomes(laboratory: Laboratory, name: str) -> dict[str, Outcome]:
    """Return the outcomes of a job: bare, traced, and of some with the budget."""
    ways = WAYS if name in TRACED_BY_BUDGET else ("bare", "every")
    return laboratory.outcomes(str(JOBS / name), ways=ways)


def counts(outcome: Outcome) -> dict[str, int]:
    """Return the completed steps by name; those that jax.jit did not make by kind and name."""
    found: dict[str, int] = {}
    for loop in outcome.loops:
        is_other = loop["kind"] in ("compiled", "grad")
        name = f"{loop['kind']} {loop['name']}" if is_other else loop["name"]
        found[name] = found.get(name, 0) + loop["count"]
    return found


def without_own_frames(text: str) -> str:
    """Return a traceback without the agent's frames, which show before Python 3.11."""
    return _OWN_FRAME.sub("", text)


def without_times(text: str) -> str:
    """Return log lines without the times that they begin with."""
    return re.sub(r"(\d{4}-\d\d-\d\d|[EWI]\d{4}) \d\d:\d\d:\d\d[,.]\d+( +\d+ )?", "TIME ", text)
