"""Read and write tfprof's options, as words: `-max_depth 10` or `--max_depth=10`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tfprobe.analysis.ops.cost_tree import ATTRIBUTES, METRICS, ORDERS, ViewOptions
from tfprobe.errors import UsageError

# Kind of output -> the keys it must have.
OUTPUTS: Mapping[str, tuple[str, ...]] = {
    "file": ("outfile",),
    "none": (),
    "pprof": ("outfile",),
    "stdout": (),
    "timeline": ("outfile",),
}
# In the order of the engine's own list.
NAMES: tuple[str, ...] = (
    "max_depth",
    *(f"min_{metric}" for metric in METRICS),
    "step",
    "order_by",
    "account_type_regexes",
    "start_name_regexes",
    "trim_name_regexes",
    "show_name_regexes",
    "hide_name_regexes",
    "account_displayed_op_only",
    "select",
    "output",
)
_TRUE = frozenset({"true", "t", "yes", "y", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "0"})


@dataclass(frozen=True, slots=True)
class Output:
    """Where a report goes, one of OUTPUTS, and what that needs to know."""

    kind: str = "stdout"
    keys: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Options:
    """All options of one report."""

    choice: ViewOptions = field(default_factory=lambda: ViewOptions(as_engine=True))
    output: Output = field(default_factory=Output)


def parse(words: Sequence[str], defaults: Options) -> Options:
    """Return `defaults` with what the words say; raises UsageError at the first that is wrong."""
    options, at = defaults, 0
    while at < len(words):
        name, value, at = read_option(words, at)
        options = _with(options, name, value)
    return options


def read_option(words: Sequence[str], at: int) -> tuple[str, str, int]:
    """Return the option at this word, its value, and where the next begins.

    Raises UsageError where there is no such option, or no value.
    """
    word = words[at]
    name, has_value, value = word.lstrip("-").partition("=")
    if not word.startswith("-") or name not in NAMES:
        raise UsageError(f"There is no option {word!r}.", hint=f"Options: {', '.join(NAMES)}.")
    if has_value:
        return name, value, at + 1
    follows = words[at + 1] if at + 1 < len(words) else None
    if name == "account_displayed_op_only" and (follows is None or _is_option(follows)):
        return name, "true", at + 1
    if follows is None or _is_option(follows):
        raise UsageError(f"Option -{name} has no value.")
    return name, follows, at + 2


def _is_option(word: str) -> bool:
    return word.startswith("-") and word.lstrip("-").partition("=")[0] in NAMES


def _with(options: Options, name: str, value: str) -> Options:
    choice = options.choice
    if name == "output":
        return replace(options, output=parse_output(value))
    changed: dict[str, Any]  # Any: the fields of a Choice have many types
    if name.startswith("min_"):
        changed = {"least": {**choice.least, name.removeprefix("min_"): _integer(name, value)}}
    elif name in ("max_depth", "step"):
        changed = {name: _integer(name, value)}
    elif name == "order_by":
        changed = {name: _known(name, _unquoted(value), ORDERS)}
    elif name == "select":
        changed = {name: tuple(_known(name, each, ATTRIBUTES) for each in _list(value))}
    elif name == "account_displayed_op_only":
        changed = {name: _truth(name, value)}
    else:
        changed = {name: _list(value)}
    return replace(options, choice=replace(choice, **changed))


def lines(options: Options) -> str:
    """Return all options and their values, one a line, as the engine lists them."""
    return "".join(f"{'-' + name:<28}{_text(options, name)}\n" for name in NAMES)


def _text(options: Options, name: str) -> str:
    choice = options.choice
    if name == "output":
        keys = ",".join(f"{key}={value}" for key, value in sorted(options.output.keys.items()))
        return f"{options.output.kind}:{keys}"
    if name.startswith("min_"):
        return str(choice.least.get(name.removeprefix("min_"), 0))
    if name == "select":
        return ",".join(sorted(set(choice.select)))
    value = getattr(choice, name)
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def parse_output(value: str) -> Output:
    """Return what `KIND:key=value,...` says; raises UsageError where there is no such output."""
    kind, _, rest = _unquoted(value).partition(":")
    if not kind:
        return Output()
    if kind not in OUTPUTS:
        raise UsageError(f"There is no output {kind!r}.", hint=f"Outputs: {', '.join(OUTPUTS)}.")
    keys: dict[str, str] = {}
    for pair in filter(None, rest.split(",")):
        key, _, text = pair.partition("=")
        if key not in OUTPUTS[kind]:
            raise UsageError(f"Output {kind} has no key {key!r}.")
        if not text:
            raise UsageError(f"Key {key} of output {kind} has no value.")
        keys[key] = text
    for key in OUTPUTS[kind]:
        if key not in keys:
            raise UsageError(f"Output {kind} needs a file.", hint=f"Say -output {kind}:{key}=FILE.")
    return Output(kind, keys)


def _integer(name: str, value: str) -> int:
    try:
        return int(_unquoted(value))
    except ValueError:
        raise UsageError(f"Option -{name} takes a whole number, not {value!r}.") from None


def _truth(name: str, value: str) -> bool:
    word = _unquoted(value).lower()
    if word in _TRUE | _FALSE:
        return word in _TRUE
    raise UsageError(f"Option -{name} is true or false, not {value!r}.")


def _known(name: str, value: str, known: Sequence[str]) -> str:
    if value in known:
        return value
    raise UsageError(f"Option -{name} cannot be {value!r}.", hint=f"It can be {', '.join(known)}.")


def _list(value: str) -> tuple[str, ...]:
    return tuple(filter(None, _unquoted(value).split(",")))


def _unquoted(value: str) -> str:
    return value.strip("'\"")


_LISTS = (
    "account_type_regexes",
    "start_name_regexes",
    "trim_name_regexes",
    "show_name_regexes",
    "hide_name_regexes",
    "select",
)
_MOST_DEPTH = 10


def options_of(given: Mapping[str, Any]) -> tuple[Options, tuple[str, ...]]:
    """Return the options of a dict, and remarks about them.

    Raises UsageError for a value of the wrong type and for an output that does not exist. Keys that
    mean nothing, and orders and columns that do not exist, are reported and otherwise ignored.
    """
    if not isinstance(given, Mapping):
        raise UsageError(
            f"options takes a dict, not {type(given).__name__}.",
            hint="End a ProfileOptionBuilder's calls with .build().",
        )
    least = {metric: _option_dict_integer(given, f"min_{metric}", 0) for metric in METRICS}
    choice = ViewOptions(
        max_depth=_option_dict_integer(given, "max_depth", _MOST_DEPTH),
        least={metric: each for metric, each in least.items() if each},
        step=_option_dict_integer(given, "step", -1),
        order_by=str(given.get("order_by", "name")),
        account_displayed_op_only=bool(given.get("account_displayed_op_only", False)),
        as_engine=True,
        **{name: _texts(given, name) for name in _LISTS},
    )
    return Options(choice, _output(given)), tuple(_remarks(given, choice))


def _output(given: Mapping[str, Any]) -> Output:
    dumped = given.get("dump_to_file", "")
    if dumped:
        return Output("file", {"outfile": str(dumped)})
    return parse_output(str(given.get("output", "stdout")))


def _remarks(given: Mapping[str, Any], choice: ViewOptions) -> Iterable[str]:
    known = {"max_depth", "step", "order_by", "account_displayed_op_only", "output", "dump_to_file"}
    known |= {*_LISTS, *(f"min_{metric}" for metric in METRICS)}
    for name in sorted(set(given) - known):
        yield f"There is no option {name!r}."
    if choice.order_by not in ORDERS:
        yield f"order_by {choice.order_by!r} does not exist; the order is by name."
    for name in choice.select:
        if name not in ATTRIBUTES:
            yield f"select {name!r} does not exist and is left out."
    if given.get("dump_to_file"):
        yield "dump_to_file is old; say output='file:outfile=NAME'."


def _option_dict_integer(given: Mapping[str, Any], name: str, default: int) -> int:
    value = given.get(name, default)
    try:
        whole = int(value)
    except (TypeError, ValueError):
        raise UsageError(f"Option {name} takes a whole number, not {value!r}.") from None
    return whole


def _texts(given: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = given.get(name, ())
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise UsageError(f"Option {name} takes a list of texts, not {value!r}.")
    return tuple(str(each) for each in value)
