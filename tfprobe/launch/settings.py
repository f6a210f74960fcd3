"""What `tfprobe run` was asked to do: flags above variables above tfprobe.toml above defaults."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfprobe.errors import UsageError
from tfprobe.launch import grammar
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
class Layer:
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

    def config(self) -> dict[str, Any]:
        """Give the content of boot/config.json."""
        return {
            "schema": "tfprobe.config/1",
            "steps": self.steps,
            "every": self.every,
            "budget": self.budget_ratio,
            "trace_level": self.trace_level,
        }


def resolve(*layers: Layer) -> Settings:
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


def _choice(layers: tuple[Layer, ...]) -> dict[str, Any]:
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
                f"{both} both choose which steps to record.", hint="Give one of them."
            )
        if given:
            return {given[0]: _parse(layer, given[0], parsers[given[0]])}
    return {}


def _first(layers: tuple[Layer, ...], name: str, parser: Callable[[object], Any]) -> Any:
    for layer in layers:
        if name in layer.values:
            return _parse(layer, name, parser)
    return None


def _tags(layers: tuple[Layer, ...]) -> dict[str, str]:
    """Merge the tags of all layers: a cluster may set some of them, and a command line others."""
    merged: dict[str, str] = {}
    for layer in layers:
        if "tag" in layer.values:
            merged = {**_parse(layer, "tag", grammar.tags), **merged}
    return merged


def _path(layers: tuple[Layer, ...], name: str, parser: Callable[..., str]) -> str | None:
    for layer in layers:
        if name in layer.values:
            path: str = _parse(layer, name, functools.partial(parser, base=layer.base))
            return path
    return None


def _parse(layer: Layer, name: str, parser: Callable[[object], Any]) -> Any:
    value = layer.values[name]
    try:
        return parser(value)
    except grammar.Unreadable as exc:
        raise layer.error(f"{layer.spelling(name)} is {value!r}: {exc}.") from exc
