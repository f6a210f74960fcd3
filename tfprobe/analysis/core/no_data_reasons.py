"""Explain why a run, or one of its processes, recorded nothing."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.profile.profile import Interpreter, Profile, Run, titled

_SHOWN_INTERPRETERS = 5
SERVER_ROLE = "ps"
_RECORDED = "TensorFlow, PyTorch or JAX"


def explain(profile: Profile) -> tuple[str, ...]:
    """Return one paragraph per reason; none where every process has steps and traced ones."""
    if profile.processes:
        return (*explain_no_steps(profile), *explain_no_traces(profile))
    return explain_no_process(profile.run, profile.interpreters)


def explain_no_process(run: Run, interpreters: tuple[Interpreter, ...]) -> tuple[str, ...]:
    """Return why a run has no process."""
    if run.is_live:
        return (
            f"The job is {run.state}, and no process has imported a framework that is recorded "
            f"yet: {_RECORDED}.",
        )
    if interpreters:
        return (_no_framework(interpreters),)
    return (
        "No Python interpreter started with the agent on its path. Either the command is no Python "
        "program; or the interpreter was isolated (python -I, -E or -S); or something between "
        "replaced PYTHONPATH (env -i, sudo, a container, a remote shell). "
        "`tfprobe doctor -- PYTHON` tells which.",
    )


def explain_no_steps(profile: Profile) -> tuple[str, ...]:
    """Return why processes have no steps, one paragraph for each that should have some."""
    busy = {loop.process for loop in profile.loops if loop.executed}
    reasons = []
    for process in profile.processes:
        if process.index in busy or process.role == SERVER_ROLE:
            continue  # a parameter server stores what the steps of other processes read and write
        if process.port is not None:
            reasons.append(f"What was recorded of {process.host}:{process.port} cannot be read.")
            continue
        named = f"{titled(f'process {process.pid}', process.title)} on {process.host}"
        if isinstance(process.hooks, Missing):
            reasons.append(
                f"How many steps {named} made cannot be read: {process.hooks.reason.rstrip('.')}."
            )
            continue
        if process.untimed_steps:
            reasons.append(
                f"Process {process.pid} on {process.host} ran {process.untimed_steps:,} steps, "
                "none of which could be timed: steps.bin could not grow (the disk was full, or the "
                "job closed the file)."
            )
            continue
        version = process.tensorflow
        what = "a framework" if isinstance(version, Missing) else f"TensorFlow {version}"
        raised = process.ending.exception
        ran = "but ran no" if raised is None else f"and ended by {raised.type} before it ran a"
        reasons.append(
            f"{named[:1].upper()}{named[1:]} imported {what} {ran} step tfprobe "
            "recognises: a Session.run, a Keras fit, evaluate or predict, a call of a tf.function "
            "or of a function of jax.jit, an eager apply_gradients or gradient of a tape, or in "
            "PyTorch a step of an optimizer or a call of a module after eval()."
        )
    return tuple(reasons)


def explain_no_traces(profile: Profile) -> tuple[str, ...]:
    """Return why processes that counted steps traced none, each reason once."""
    reasons: dict[str, list[str]] = {}
    for process in profile.processes:
        if process.untraced:
            named = f"{titled(f'process {process.pid}', process.title)} on {process.host}"
            reasons.setdefault(process.untraced, []).append(named)
    return tuple(
        f"No step of {named[0]}{f' and {len(named) - 1} more' if len(named) > 1 else ''} was "
        f"traced: {why}."
        for why, named in reasons.items()
    )


def _no_framework(interpreters: tuple[Interpreter, ...]) -> str:
    shown = [
        f"{it.executable} ({it.version}, pid {it.pid})" for it in interpreters[:_SHOWN_INTERPRETERS]
    ]
    more = len(interpreters) - len(shown)
    tail = f" and {more} more" if more else ""
    count = f"{len(interpreters)} Python interpreter{'s' if len(interpreters) > 1 else ''}"
    return (
        f"{count} started with the agent and none recorded anything: none imported a framework "
        f"that is recorded ({_RECORDED}), or the run directory could not be written then (a full "
        f"disk, a file server that failed): {', '.join(shown)}{tail}. If one should have, "
        "`tfprobe doctor -- PYTHON` tests it."
    )
