"""Would this interpreter load the agent and a framework? Starts it with a probe for a script."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfprobe.errors import UsageError
from tfprobe.launch import execute
from tfprobe.launch.doctor.checks import Check, sitecustomize_checks
from tfprobe.launch.doctor.frameworks import Installed, Package, framework_checks
from tfprobe.launch.execute import with_boot
from tfprobe.launch.settings import Settings
from tfprobe.runs.layout import RunFolder

_PYTHON = re.compile(r"(python|pypy)[\d.]*t?")
# Interpreter options that take the next word as their value.
_OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_OLDEST, _NEWEST = (3, 6), (3, 13)
_MARKER = "tfprobe-doctor:"
# An import of a framework from a cold network disk takes minutes.
_PATIENCE_S, _DEEP_PATIENCE_S = 60, 600


@dataclass(frozen=True, slots=True)
class Survey:
    """What the probe said, and whether the agent reported in."""

    found: Mapping[str, Any]
    has_agent: bool


def words(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Cut a command after the interpreter's own options, so that no script of it is ever run.

    Raises: UsageError where no word names a Python interpreter.
    """
    command = [*_shebang(command, environment), *command]
    kept: list[str] = []
    rest = list(command)
    while rest:
        kept.append(rest.pop(0))
        if _PYTHON.fullmatch(os.path.basename(kept[-1])):
            return kept + _own_options(rest)
    raise UsageError(
        f"No Python interpreter was found in {' '.join(command)!r}.",
        hint="Name the one that the job uses, as in `tfprobe doctor -- python3 -I`.",
    )


def checks(
    python: Sequence[str],
    *,
    run: RunFolder,
    settings: Settings,
    environment: Mapping[str, str],
    deep: bool,
) -> list[Check]:
    """Start the interpreter as a run would and judge what it says."""
    try:
        survey = _survey(python, run=run, environment=environment, deep=deep)
    except (OSError, subprocess.TimeoutExpired, _NoAnswerError) as exc:
        action = (
            "Name the interpreter that the job uses, as in `tfprobe doctor -- /path/to/python3`."
        )
        return [Check.failed("python", f"{' '.join(python)} cannot be checked: {exc}.", action)]
    version = _version(survey.found)
    if not _is_supported(survey.found):
        return [version]
    if survey.found["no_site"]:
        # Without site-packages on its path nothing can be said about what is installed.
        return [version, _injection(survey)]
    return [
        version,
        _injection(survey),
        *framework_checks(_installed(survey.found), settings=settings, environment=environment),
        *sitecustomize_checks(survey.found["sitecustomize"]),
    ]


def _installed(found: Mapping[str, Any]) -> Installed:
    packages = {name: Package(**package) for name, package in found["packages"].items()}
    return Installed(packages, found["keras_backend"])


class _NoAnswerError(Exception):
    """The interpreter ran but the probe did not."""


def _survey(
    python: Sequence[str], *, run: RunFolder, environment: Mapping[str, str], deep: bool
) -> Survey:
    boot = str(run.boot)
    path = with_boot(boot, environment.get("PYTHONPATH"))
    probe = Path(__file__).with_name("probe.py").read_text(encoding="utf-8")
    ended = subprocess.run(
        [*python, "-c", probe, _MARKER, boot, *(["deep"] if deep else [])],
        env={**environment, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_DEEP_PATIENCE_S if deep else _PATIENCE_S,
        check=False,
    )
    answers = [line for line in ended.stdout.splitlines() if line.startswith(_MARKER)]
    if not answers:
        last_words = (ended.stderr.strip().splitlines() or ["nothing on stderr"])[-1]
        raise _NoAnswerError(f"it ended with status {ended.returncode} and {last_words!r}")
    found = json.loads(answers[-1].removeprefix(_MARKER))
    return Survey(found, has_agent=run.interpreters.exists())


def _own_options(rest: Iterable[str]) -> list[str]:
    options: list[str] = []
    is_value = False
    for word in rest:
        if not is_value and (not word.startswith("-") or word == "-" or _starts_program(word)):
            break
        is_value = not is_value and word in _OPTIONS_WITH_VALUE
        options.append(word)
    return options


def _starts_program(word: str) -> bool:
    """Tell -c, -m and clusters that hold them, such as -Bc, from other options."""
    return re.match(r"-[^-WX]*[cm]", word) is not None


def _shebang(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Give the words of the `#!` line if the command is a Python script of its own."""
    try:
        path = execute.locate(command[0], environment)
        with open(path, "rb") as file:
            first = file.readline(256)
    except (OSError, execute.CommandNotFound):
        return []
    if not first.startswith(b"#!"):
        return []
    return [word for word in os.fsdecode(first[2:]).split() if word != "-S"]


def _is_supported(found: Mapping[str, Any]) -> bool:
    version = tuple(found["version"][:2])
    return _OLDEST <= version <= _NEWEST and found["implementation"] == "cpython"


def _version(found: Mapping[str, Any]) -> Check:
    name = f"{found['implementation']} {'.'.join(map(str, found['version']))}"
    where = f"{name} at {found['executable']}"
    if _is_supported(found):
        return Check.passed("python", f"{where}.")
    return Check.failed(
        "python",
        f"{where} is left alone: it runs as ever, and nothing is recorded.",
        "tfprobe records CPython 3.6 to 3.13.",
    )


def _injection(survey: Survey) -> Check:
    if survey.has_agent:
        return Check.passed("agent", "It loads the recorder at start-up.")
    if survey.found["no_site"]:
        return Check.failed(
            "agent", "-S keeps start-up modules out, the recorder too.", "Run it without -S."
        )
    if survey.found["ignore_environment"]:
        return Check.failed(
            "agent", "-I or -E makes it ignore PYTHONPATH.", "Run it without -I and -E."
        )
    return Check.failed(
        "agent",
        f"PYTHONPATH does not reach it (there it is {survey.found['pythonpath']!r}).",
        "Let the wrapper pass PYTHONPATH on; `env -i` and `sudo` drop it.",
    )
