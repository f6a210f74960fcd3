"""Read the dicts of options of tf.profiler. One that lacks the regexes shows nothing, as there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tfprobe.analysis.ops.view_options import ATTRIBUTES, METRICS, ORDERS, Choice
from tfprobe.errors import UsageError
from tfprobe.tfprof.options import Options, Output, parse_output

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
    """Return what a dict asks for, and what is to be said about it.

    Raises UsageError for a value of the wrong type and for an output that does not exist. Keys that
    mean nothing, and orders and columns that do not exist, are told and otherwise passed over.
    """
    if not isinstance(given, Mapping):
        raise UsageError(
            f"options takes a dict, not {type(given).__name__}.",
            hint="End a ProfileOptionBuilder's calls with .build().",
        )
    least = {metric: _integer(given, f"min_{metric}", 0) for metric in METRICS}
    choice = Choice(
        max_depth=_integer(given, "max_depth", _MOST_DEPTH),
        least={metric: each for metric, each in least.items() if each},
        step=_integer(given, "step", -1),
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


def _remarks(given: Mapping[str, Any], choice: Choice) -> Iterable[str]:
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


def _integer(given: Mapping[str, Any], name: str, default: int) -> int:
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
