"""The settings of `tfprobe run`: options over variables over tfprobe.toml over defaults."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfprobe.errors import UsageError
from tfprobe.launch import grammar, ownership
from tfprobe.runs.layout import DEFAULT_OUTPUT

DEFAULT_BUDGET_RATIO = 0.01

# Each setting and the variable that sets it.
VARIABLES = {
    "output": "TFPROBE_OUTPUT",
    "join": "TFPROBE_JOIN",
    "name": "TFPROBE_NAME",
    "tag": "TFPROBE_TAG",
    "steps": "TFPROBE_STEPS",
    "every": "TFPROBE_EVERY",
    "budget": "TFPROBE_BUDGET",
    "trace_level": "TFPROBE_TRACE_LEVEL",
    "report": "TFPROBE_REPORT",
    "quiet": "TFPROBE_QUIET",
    "debug": "TFPROBE_DEBUG",
    "meter": "TFPROBE_METER",
    "stacks": "TFPROBE_STACKS",
}
# One setting with three spellings: the strongest layer with any of them decides.
CHOICE = ("steps", "every", "budget")


class BadSetting(UsageError):
    """A variable, tfprobe.toml or the place itself is wrong: the job runs unrecorded."""


@dataclass(frozen=True, slots=True)
class SettingsLayer:
    """One source of settings, strongest first in a sequence of them."""

    values: Mapping[str, object]
    # How a person finds a setting again: "--every", "TFPROBE_EVERY", "every in /x/tfprobe.toml".
    spelling: Callable[[str], str]
    # Relative paths of this layer start here.
    base: str
    error: type[UsageError] = BadSetting


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything `tfprobe run` needs to know, checked; paths are absolute."""

    output: str
    # The run of all launches of a job; grammar.OFF for none, None where the launcher decides.
    join: str | None
    steps: list[list[int]] | None
    every: int | None
    budget_ratio: float
    trace_level: str
    report: bool
    quiet: bool
    debug: str | None
    meter: bool
    # By what a run is found again, for people; nothing of it reaches the job.
    name: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    stacks: bool = False
    # What a trial does to the job (run-directory.md); no option, variable or file sets it.
    trial: Mapping[str, Any] | None = None

    def config(self) -> dict[str, Any]:
        """Give the content of boot/config.json."""
        config = {
            "schema": "tfprobe.config/1",
            "steps": self.steps,
            "every": self.every,
            "budget": self.budget_ratio,
            "trace_level": self.trace_level,
        }
        return config if self.trial is None else {**config, "trial": dict(self.trial)}


def resolve(*layers: SettingsLayer) -> Settings:
    """Check and merge the layers, strongest first.

    Raises: UsageError for a flag, BadSetting for anything else.
    """
    choice = _choice(layers)
    output = _path(layers, "output", grammar.path)
    return Settings(
        output=DEFAULT_OUTPUT if output is None else output,
        join=_first(layers, "join", grammar.run_name),
        steps=choice.get("steps"),
        every=choice.get("every"),
        budget_ratio=choice.get("budget", DEFAULT_BUDGET_RATIO),
        trace_level=_first(layers, "trace_level", grammar.trace_level) or "full",
        report=bool(_first(layers, "report", grammar.switch)),
        quiet=bool(_first(layers, "quiet", grammar.switch)),
        debug=_path(layers, "debug", grammar.file),
        meter=_first(layers, "meter", grammar.switch) is not False,
        name=_first(layers, "name", grammar.label),
        tags=_tags(layers),
        stacks=bool(_first(layers, "stacks", grammar.switch)),
    )


def _choice(layers: tuple[SettingsLayer, ...]) -> dict[str, Any]:
    parsers: dict[str, Callable[[object], Any]] = {
        "steps": grammar.steps,
        "every": grammar.every,
        "budget": grammar.budget,
    }
    for layer in layers:
        given = [name for name in CHOICE if name in layer.values]
        if len(given) > 1:
            both = " and ".join(layer.spelling(name) for name in given)
            raise layer.error(
                f"{both} cannot be combined: both choose the traced steps.", hint="Use one of them."
            )
        if given:
            return {given[0]: _parse(layer, given[0], parsers[given[0]])}
    return {}


def _first(layers: tuple[SettingsLayer, ...], name: str, parser: Callable[[object], Any]) -> Any:
    for layer in layers:
        if name in layer.values:
            return _parse(layer, name, parser)
    return None


def _tags(layers: tuple[SettingsLayer, ...]) -> dict[str, str]:
    """Merge the tags of all layers: a cluster may set some of them, and a command line others."""
    merged: dict[str, str] = {}
    for layer in layers:
        if "tag" in layer.values:
            merged = {**_parse(layer, "tag", grammar.tags), **merged}
    return merged


def _path(layers: tuple[SettingsLayer, ...], name: str, parser: Callable[..., str]) -> str | None:
    for layer in layers:
        if name in layer.values:
            path: str = _parse(layer, name, functools.partial(parser, base=layer.base))
            return path
    return None


def _parse(layer: SettingsLayer, name: str, parser: Callable[[object], Any]) -> Any:
    value = layer.values[name]
    try:
        return parser(value)
    except grammar.Unreadable as exc:
        raise layer.error(f"{layer.spelling(name)} is {value!r}: {exc}.") from exc


DISABLE_VARIABLE = "TFPROBE_DISABLE"
# The switch of the TensorFlow model suites: 0 means off, anything else on.
SUITE_VARIABLE = "TENSORFLOW_MODELS_TRACE_LEVEL"


def gather(flags: Mapping[str, object], environment: Mapping[str, str], cwd: str) -> Settings:
    """Read every source and settle what holds.

    Raises: UsageError for a flag, BadSetting for anything else.
    """
    layers = [flag_layer(flags, cwd), variable_layer(environment, cwd)]
    file = choose(cwd, environment)
    if file is not None:
        layers.append(file_layer(read_config_file(file), file.path))
    return resolve(*layers, default_layer(cwd))


def flag_layer(flags: Mapping[str, object], cwd: str) -> SettingsLayer:
    """Wrap what stood on the command line; its errors stop before the job starts."""
    values = {name: value for name, value in flags.items() if name != "no_meter"}
    if flags.get("no_meter"):
        values["meter"] = False
    return SettingsLayer(values, lambda name: "--" + name.replace("_", "-"), cwd, UsageError)


def variable_layer(environment: Mapping[str, str], cwd: str) -> SettingsLayer:
    """Pick our variables; an empty one counts as not set."""
    values: dict[str, object] = {
        name: environment[variable]
        for name, variable in VARIABLES.items()
        if environment.get(variable)
    }
    suite_level = environment.get(SUITE_VARIABLE)
    if suite_level and "trace_level" not in values:
        values["trace_level"] = "off" if suite_level.strip() == "0" else "full"
    return SettingsLayer(values, VARIABLES.__getitem__, cwd)


def file_layer(values: Mapping[str, object], path: str) -> SettingsLayer:
    """Wrap the [run] table of a tfprobe.toml."""
    return SettingsLayer(values, lambda name: f"{name} in {path}", os.path.dirname(path))


def default_layer(cwd: str) -> SettingsLayer:
    """Return the defaults."""
    return SettingsLayer({"output": DEFAULT_OUTPUT}, lambda name: f"the default {name}", cwd)


def is_disabled(environment: Mapping[str, str]) -> bool:
    """Tell whether the master switch is on, as the agent does: by anything but nothing and 0."""
    return environment.get(DISABLE_VARIABLE, "") not in ("", "0")


NAME = "tfprobe.toml"
# Names the file to read; one that is named so may be anybody's.
VARIABLE = "TFPROBE_CONFIG"


@dataclass(frozen=True, slots=True)
class Found:
    """The file to read, and the environment by which its owner is judged; None where it is not."""

    path: str
    judged_by: Mapping[str, str] | None


def choose(cwd: str, environment: Mapping[str, str]) -> Found | None:
    """Return the file that TFPROBE_CONFIG names, or the nearest one, or None."""
    named = environment.get(VARIABLE)
    if named:
        return Found(os.path.join(cwd, os.path.expanduser(named)), None)
    path = find_config_file(cwd)
    return None if path is None else Found(path, environment)


def find_config_file(cwd: str) -> str | None:
    """Look for tfprobe.toml in `cwd` and then in each parent."""
    folder = cwd
    while True:
        path = os.path.join(folder, NAME)
        if os.path.isfile(path):
            return path
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def read_config_file(file: Found) -> dict[str, object]:
    """Give the [run] table.

    Raises BadSetting where the file is another user's, cannot be read or has unknown keys.
    """
    table = read_table(file, "run")
    unknown = sorted(set(table) - set(VARIABLES))
    if unknown:
        known = ", ".join(sorted(VARIABLES))
        raise BadSetting(
            f"{file.path} has an unknown key {unknown[0]!r} in [run].", hint=f"Known keys: {known}."
        )
    return table


def read_table(file: Found, name: str) -> dict[str, object]:
    """Return a table of the file, empty if it has none.

    Raises BadSetting where the file is another user's, cannot be read or has something else by
    this name.
    """
    table = _document(file).get(name, {})
    if not isinstance(table, dict):
        raise BadSetting(f"`{name}` in {file.path} is not a table.", hint=f"Write [{name}].")
    return table


def _document(found: Found) -> dict[str, object]:
    # Imported here: most launches have no file, and the parser costs 10 ms.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    path = found.path
    try:
        with open(path, "rb") as file:
            _refuse_others(found, os.fstat(file.fileno()))
            return tomllib.load(file)
    except (OSError, ValueError, RecursionError) as exc:
        raise BadSetting(f"{path} cannot be read: {exc}.", hint="Correct or remove it.") from exc


def _refuse_others(file: Found, facts: os.stat_result) -> None:
    if file.judged_by is None:
        return
    problem = ownership.file_problem(file.path, facts, file.judged_by)
    if problem is not None:
        hint = f"Set {VARIABLE} to this path to use it, or to /dev/null to ignore it."
        raise BadSetting(f"{file.path} is not used: it {problem}.", hint=hint)
