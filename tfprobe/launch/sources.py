"""Collect what was said: on the command line, in variables, in tfprobe.toml, and by default."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tfprobe.errors import UsageError
from tfprobe.launch import config_file
from tfprobe.launch.settings import VARIABLES, Layer, Settings, resolve
from tfprobe.runs.layout import DEFAULT_OUTPUT

DISABLE_VARIABLE = "TFPROBE_DISABLE"
# The switch of the TensorFlow model suites: 0 means off, anything else on.
SUITE_VARIABLE = "TENSORFLOW_MODELS_TRACE_LEVEL"


def gather(flags: Mapping[str, object], environment: Mapping[str, str], cwd: str) -> Settings:
    """Read every source and settle what holds.

    Raises: UsageError for a flag, BadSetting for anything else.
    """
    layers = [flag_layer(flags, cwd), variable_layer(environment, cwd)]
    file = config_file.choose(cwd, environment)
    if file is not None:
        layers.append(file_layer(config_file.read(file), file.path))
    return resolve(*layers, default_layer(cwd))


def flag_layer(flags: Mapping[str, object], cwd: str) -> Layer:
    """Wrap what stood on the command line; its errors stop before the job starts."""
    values = {name: value for name, value in flags.items() if name != "no_meter"}
    if flags.get("no_meter"):
        values["meter"] = False
    return Layer(values, lambda name: "--" + name.replace("_", "-"), cwd, UsageError)


def variable_layer(environment: Mapping[str, str], cwd: str) -> Layer:
    """Pick our variables; an empty one counts as not set."""
    values: dict[str, object] = {
        name: environment[variable]
        for name, variable in VARIABLES.items()
        if environment.get(variable)
    }
    suite_level = environment.get(SUITE_VARIABLE)
    if suite_level and "trace_level" not in values:
        values["trace_level"] = "off" if suite_level.strip() == "0" else "full"
    return Layer(values, VARIABLES.__getitem__, cwd)


def file_layer(values: Mapping[str, object], path: str) -> Layer:
    """Wrap the [run] table of a tfprobe.toml."""
    return Layer(values, lambda name: f"{name} in {path}", os.path.dirname(path))


def default_layer(cwd: str) -> Layer:
    """Give what holds where nobody said anything."""
    return Layer({"output": DEFAULT_OUTPUT}, lambda name: f"the default {name}", cwd)


def is_disabled(environment: Mapping[str, str]) -> bool:
    """Tell whether the master switch is on, as the agent does: by anything but nothing and 0."""
    return environment.get(DISABLE_VARIABLE, "") not in ("", "0")
