"""Find out before a run whether it would record. Tries the real thing; starts no job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfprobe.launch import prepare
from tfprobe.launch.doctor import interpreter
from tfprobe.launch.doctor.checks import Check, State, extras_check, machine_checks, output_checks
from tfprobe.launch.settings import DISABLE_VARIABLE, BadSetting, gather, is_disabled

__all__ = ["Check", "Diagnosis", "State", "diagnose"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was checked for one interpreter, in the order a launch meets it."""

    command: tuple[str, ...]
    checks: tuple[Check, ...]

    @property
    def would_record(self) -> bool:
        """Say whether no check failed; warnings do not count."""
        return all(check.state is not State.FAILED for check in self.checks)


def diagnose(
    command: Sequence[str],
    *,
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    cwd: str,
    deep: bool = False,
) -> Diagnosis:
    """Try a run of the interpreter in `command`, without its script, and judge what happened.

    Raises: UsageError for a wrong flag or where no interpreter stands in `command`.
    """
    python = interpreter.words(command, environment)
    checks = [_switch(environment)]
    try:
        chosen = gather(flags, environment, cwd)
        run = prepare.prepare(chosen, ["doctor"], environment=environment)
    except (BadSetting, prepare.CannotPrepare) as problem:
        name = "settings" if isinstance(problem, BadSetting) else "output"
        checks.append(Check.failed(name, problem.problem, problem.hint or "Correct it."))
        return Diagnosis(tuple(python), tuple(checks))
    try:
        checks += output_checks(run.folder.root)
        checks += interpreter.checks(
            python, run=run.folder, settings=chosen, environment=environment, deep=deep
        )
    finally:
        prepare.discard(run)
        _remove_if_empty(run.folder.root.parent)
    checks += machine_checks(environment)
    checks.append(extras_check())
    return Diagnosis(tuple(python), tuple(checks))


def _remove_if_empty(output: Path) -> None:
    # The doctor leaves things as they were, and the output directory may be of its making.
    try:
        output.rmdir()
    except OSError:
        pass


def _switch(environment: Mapping[str, str]) -> Check:
    if is_disabled(environment):
        action = f"Unset {DISABLE_VARIABLE}."
        return Check.failed("switch", "Recording is switched off.", action)
    return Check.passed("switch", "Recording is switched on.")
