"""Decide which fixes can change something in a job, by what a recording says of it.

What cannot be known from a recording is left to the agent: it says *skipped* where it is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfprobe.analysis.account.account import Account
from tfprobe.analysis.account.categories import Category
from tfprobe.errors import Missing
from tfprobe.findings.collect import has_accelerator
from tfprobe.findings.fixes import (
    ALLOCATOR,
    JAX,
    KERAS,
    KERAS_KINDS,
    PYTORCH,
    TENSORFLOW,
    ChosenFix,
    applies,
)
from tfprobe.profile.profile import Process

_NAMES = {TENSORFLOW: "TensorFlow", KERAS: "Keras", JAX: "JAX", PYTORCH: "PyTorch"}
_FUNCTION = "function"
# Of RewriterConfig.Toggle, which the options of a Session have.
_TOGGLED_OFF = 2


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """What a recording says of a job.

    `frameworks` are named as fixes name them, `kinds` are those of its loops. `settings` are those
    of each process that has noted them. `has_accelerator` and `compiles`, whether anything was
    traced or compiled, are None where that is not known.
    """

    frameworks: tuple[str, ...] = ()
    kinds: frozenset[str] = frozenset()
    settings: tuple[Mapping[str, Any], ...] = ()
    has_accelerator: bool | None = None
    compiles: bool | None = None

    def has_set(self, name: str) -> bool:
        """Return whether a switch was on in some process."""
        return any(settings.get(name) is True for settings in self.settings)

    def has_variable(self, name: str, value: str) -> bool:
        """Return whether a variable had this value in all processes that have noted theirs."""
        noted = [settings.get("environment") for settings in self.settings]
        return bool(noted) and all(
            isinstance(variables, dict) and variables.get(name) == value for variables in noted
        )


def recorded_job(
    processes: Sequence[Process], kinds: Iterable[str], accounts: Iterable[Account | Missing]
) -> RecordedJob:
    """Return what a recording says of a job, from its processes, loops and accounts."""
    found = frozenset(kinds)
    frameworks = {KERAS} if KERAS_KINDS & found else set()
    for process in processes:
        if not isinstance(process.tensorflow, Missing):
            frameworks.add(TENSORFLOW)
        if process.jax is not None:
            frameworks.add(JAX)
        if process.torch is not None:
            frameworks.add(PYTORCH)
    known = [process for process in processes if not isinstance(process.devices, Missing)]
    compiled = [
        None if isinstance(account, Missing) else account.ns(Category.COMPILE) > 0
        for account in accounts
    ]
    return RecordedJob(
        tuple(sorted(frameworks)),
        found,
        tuple(
            process.settings for process in processes if not isinstance(process.settings, Missing)
        ),
        any(map(has_accelerator, known)) if known else None,
        True if any(compiled) else None if None in compiled or not compiled else False,
    )


def why_not(chosen: ChosenFix, job: RecordedJob) -> str | None:
    """Return why a fix can change nothing in a job; None if it may, or nothing is known."""
    fix = chosen.fix
    if fix.id == ALLOCATOR and not chosen.value:
        return "neither tcmalloc nor jemalloc was found on this machine"
    if job.frameworks and not applies(fix, job.frameworks):
        return f"it is for {_listed(fix.frameworks, 'and')}, and the job uses " + _listed(
            job.frameworks, "and"
        )
    if fix.kinds and job.kinds and job.kinds.isdisjoint(fix.kinds):
        return f"no loop of kind {_listed(fix.kinds, 'or')} was recorded"
    if fix.is_for_accelerators and job.has_accelerator is False:
        return "the job uses no accelerator"
    variables = fix.environment(chosen.value)
    if variables and all(job.has_variable(*pair) for pair in variables.items()):
        return f"{' '.join(f'{name}={text}' for name, text in variables.items())} is set already"
    decide = _BY_SETTINGS.get(fix.id)
    return None if decide is None else decide(job)


def reasons(offered: Iterable[ChosenFix], job: RecordedJob) -> dict[str, str]:
    """Return why each fix that can change nothing in a job cannot, by its id."""
    _, others = divided(offered, job)
    return {chosen.fix.id: why for chosen, why in others}


def divided(
    fixes: Iterable[ChosenFix], job: RecordedJob
) -> tuple[tuple[ChosenFix, ...], tuple[tuple[ChosenFix, str], ...]]:
    """Return which of these fixes are worth a try, and the others with the reason."""
    judged = [(chosen, why_not(chosen, job)) for chosen in fixes]
    return (
        tuple(chosen for chosen, why in judged if why is None),
        tuple((chosen, why) for chosen, why in judged if why is not None),
    )


def _listed(words: Sequence[str], last: str) -> str:
    *first, end = (_NAMES.get(word, word) for word in words)
    return f"{', '.join(first)} {last} {end}" if first else end


def _not_eager(job: RecordedJob) -> str | None:
    """Return why nothing runs eagerly that could be compiled without a change of the program."""
    is_noted = any("run_eagerly" in settings for settings in job.settings)
    if not is_noted or job.has_set("eager") or job.has_set("run_eagerly"):
        return None
    keras = job.kinds & KERAS_KINDS
    # They are noted at one step: its model's, unless it is a step of another kind.
    is_known = not keras or keras == job.kinds
    return "neither run_eagerly nor run_functions_eagerly was on" if is_known else None


def _functions_eager(job: RecordedJob) -> str | None:
    is_on = job.has_set("eager")
    return "tf.functions run eagerly, too, by tf.config.run_functions_eagerly" if is_on else None


def _model_eager(job: RecordedJob) -> str | None:
    is_on = job.has_set("eager") or job.has_set("run_eagerly")
    return "the model runs eagerly, op by op" if is_on else None


def _nothing_compiled(job: RecordedJob) -> str | None:
    if job.kinds & {*KERAS_KINDS, _FUNCTION}:
        return _model_eager(job)
    return "neither a Keras model nor a tf.function ran" if job.compiles is False else None


def _layout_chosen(job: RecordedJob) -> str | None:
    """Return why TensorFlow chooses the layout already."""
    noted = [settings.get("optimizer") for settings in job.settings]
    chosen = [each.get("layout_optimizer") for each in noted if isinstance(each, dict)]
    is_on = chosen and not any(value in (False, _TOGGLED_OFF) for value in chosen)
    return "the program has not switched the layout optimizer off" if is_on else None


_BY_SETTINGS: Mapping[str, Callable[[RecordedJob], str | None]] = {
    "function_step": _functions_eager,
    "jit_compile": _nothing_compiled,
    "layout_optimizer": _layout_chosen,
    "run_eagerly_off": _not_eager,
    "steps_per_execution": _model_eager,
}
