"""The options that choose among runs, and what is said when they leave none."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from tfprobe.errors import NoAnswer, UsageError

if TYPE_CHECKING:
    from tfprobe.analysis.jobs.run_selection import Filtered, Filters


# As tfprobe.runs.liveness has them; its imports would make help pages slow.
STATES = (
    "running", "stopped", "finished", "failed", "terminated", "replaced", "killed", "unknown",
)  # fmt: skip
_AGE_HELP = "List only runs that ended, or last wrote, {} AGE ago, as in 90s, 15m, 12h, 7d, 2w."


def filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the filters; Callable[..., Any] is click's own type for it."""
    for option in reversed(
        (
            _several("--state", "STATE", f"List only runs in this state: {', '.join(STATES)}."),
            _several(
                "--host", "HOST", "List only runs on this host, a name or a pattern: 'gpu-*'."
            ),
            _several("--user", "USER", "List only runs of this user, a name or a pattern."),
            _several(
                "--command", "PATTERN", "List only commands that match this regular expression."
            ),
            _several(
                "--name", "NAME", "List only runs with this `run --name`, a name or a pattern."
            ),
            _several(
                "--tag", "KEY[=VALUE]", "List only runs with this tag; if repeated, with all."
            ),
            _age("--older", "at least"),
            _age("--newer", "at most"),
        )
    ):
        function = option(function)
    return function


def filters(options: Mapping[str, Any]) -> Filters:
    """Return the filters of the options. Raises UsageError for what they cannot be."""
    from tfprobe.analysis.jobs.run_selection import Filters

    return Filters(
        states=_states(options["state"]),
        hosts=_words("host", options["host"]),
        users=_words("user", options["user"]),
        commands=_patterns(options["command"]),
        names=_given("name", options["name"]),
        tags=_tags(options["tag"]),
        older_ns=options["older"],
        newer_ns=options["newer"],
    )


def nothing_left(place: str, count: int, found: Filtered) -> NoAnswer:
    """Say which filter left nothing of the runs there are."""
    steps = [f"{left or 'none'} after --{name}" for name, left in found.left]
    runs = f"{count} run{'s' if count > 1 else ''}"
    return NoAnswer(f"No run in {place} matches: {', '.join([runs, *steps])}.")


def _several(option: str, metavar: str, text: str) -> Callable[..., Any]:
    return click.option(option, multiple=True, metavar=metavar, help=text)


def _age(option: str, bound: str) -> Callable[..., Any]:
    return click.option(option, metavar="AGE", callback=as_age, help=_AGE_HELP.format(bound))


def _words(option: str, values: tuple[str, ...]) -> tuple[str, ...]:
    """Take `a,b` apart. Raises UsageError for nothing, which is not the same as anything."""
    words = tuple(word.strip() for value in values for word in value.split(","))
    if not all(words):
        raise UsageError(f"--{option} {','.join(values)!r} has an empty value.")
    return words


def _given(option: str, values: tuple[str, ...]) -> tuple[str, ...]:
    """Take values as they are: a name may have a comma. Raises UsageError for nothing."""
    if not all(value.strip() for value in values):
        raise UsageError(f"--{option} '' is empty.")
    return tuple(value.strip() for value in values)


def _tags(values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Take KEY=VALUE apart; a key alone is had by every run with such a tag."""
    pairs = [text.partition("=") for text in _given("tag", values)]
    for key, _, value in pairs:
        if not key:
            raise UsageError(f"--tag '={value}' has no key.", hint="Use KEY=VALUE or KEY.")
    return tuple((key, value if equals else "*") for key, equals, value in pairs)


def _states(values: tuple[str, ...]) -> tuple[str, ...]:
    words = _words("state", values)
    for word in words:
        if word not in STATES:
            hint = f"Choose from {', '.join(STATES)}."
            raise UsageError(f"--state {word!r} is not a state of a run.", hint=hint)
    return words


def _patterns(texts: tuple[str, ...]) -> Any:
    # Any: Patterns or None, whose import would make help pages slow.
    from tfprobe.analysis.core.names import compile_patterns

    if not texts:
        return None
    patterns = compile_patterns(texts)
    for text, why in patterns.invalid:
        raise UsageError(f"--command {text!r} is not a valid regular expression: {why}.")
    return patterns


_SECOND_NS = 1_000_000_000
_AGE_UNITS: Mapping[str, int] = {
    "s": _SECOND_NS,
    "m": 60 * _SECOND_NS,
    "min": 60 * _SECOND_NS,
    "h": 3600 * _SECOND_NS,
    "d": 24 * 3600 * _SECOND_NS,
    "w": 7 * 24 * 3600 * _SECOND_NS,
}
# As ls, du and dd of GNU write them: M and MiB are 2^20, MB is 10^6.
_SIZE_UNITS: Mapping[str, int] = {
    "b": 1,
    **{f"{letter}{ending}": 1024**power for power, letter in enumerate("kmgt", 1)
       for ending in ("", "ib")},
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
}  # fmt: skip
# Longer than any recording, and short enough for 64 bits.
_LONGEST_NS = 100 * 365 * _AGE_UNITS["d"]
_LARGEST_BYTES = 2**63 - 1
_AMOUNT = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([A-Za-z]+)")
_AGE_EXPECTED = "use an age such as 90s, 15m, 12h, 7d or 2w"
_SIZE_EXPECTED = "use a size such as 500M, 2GiB or 1.5GB"


class _Unreadable(ValueError):
    """The text is no such amount; the message says what is expected."""


def as_age(_: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Read the value of an option that takes an age, in ns: a callback of click's."""
    return None if value is None else _read(age_ns, value, param)


def as_size(_: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Read the value of an option that takes a size, in bytes: a callback of click's."""
    return None if value is None else _read(size_bytes, value, param)


def age_ns(text: str) -> int:
    """Read `90s`, `15m`, `12h`, `7d`, `2w`, more than nothing, in ns. Raises ValueError."""
    amount = _amount(text, _AGE_UNITS, _AGE_EXPECTED)
    if amount > _LONGEST_NS:
        raise _Unreadable("an age is at most 100 years")
    return amount


def size_bytes(text: str) -> int:
    """Read `500M`, `2GiB`, `1.5GB`, more than nothing, in bytes. Raises ValueError."""
    amount = _amount(text.lower(), _SIZE_UNITS, _SIZE_EXPECTED)
    if amount > _LARGEST_BYTES:
        raise _Unreadable("a size is at most 8 EiB")
    return amount


def _read(read: Callable[[str], int], value: str, param: click.Parameter) -> int:
    try:
        return read(value)
    except ValueError as exc:
        raise click.BadParameter(f"{value!r}: {exc}.", param=param) from exc


def _amount(text: str, units: Mapping[str, int], expected: str) -> int:
    match = _AMOUNT.fullmatch(text.strip())
    unit = None if match is None else units.get(match[2])
    if match is None or unit is None:
        raise _Unreadable(expected)
    amount = int(Decimal(match[1]) * unit)
    if amount <= 0:
        raise _Unreadable(f"it must be above 0; {expected}")
    return amount
