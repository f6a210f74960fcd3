"""What the job's speed depends on, whatever its framework; and how settings are read that a version may not have."""

from tfprobe_agent.config import speed_variables
from tfprobe_agent.core.recorder import current_recorder
from tfprobe_agent.interruptions import let_through
from tfprobe_agent.unpatched import UNPATCHED


def write(read):
    """Write the settings event: those of each job, and what `read()` returns of its framework."""
    began_ns = UNPATCHED.monotonic_ns()
    recorder = current_recorder()
    recorder.process_dir.event("settings", settings=dict(general_settings(), **read()))
    recorder.spent_once(UNPATCHED.monotonic_ns() - began_ns)


def general_settings():
    """Return the settings that do not depend on a framework."""
    variables = speed_variables()
    return {
        "cpus": or_none(lambda: len(UNPATCHED.sched_getaffinity(0))),
        "xla_flags": variables.get("XLA_FLAGS"),
        "environment": variables,
    }


def or_none(read):
    """Return what a function returns, None if it fails: private names of another version, a system without it."""
    try:
        return read()
    except Exception:
        let_through()
        return None
