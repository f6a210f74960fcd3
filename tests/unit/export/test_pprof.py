"""Our own pprof files hold every op and every metric."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from tests.support.graphs import MICROS, graph_profile
from tfprobe.analysis.ops.code_view import code
from tfprobe.analysis.ops.cost_tree import ViewOptions
from tfprobe.analysis.ops.tfprof_records import costs
from tfprobe.export.pprof import NOWHERE, UNKNOWN, pprof
from tfprobe.formats.schema import message_class


def written(choice: ViewOptions, **more: Any) -> Any:
    """Return the parsed file of the small graph. Any: messages are made at run time."""
    profile = graph_profile()
    of_step = costs(profile, choice.step)
    message = message_class("tfprobe.pprof.Profile")()
    content = pprof(profile, of_step, code(profile, of_step, choice), **more)
    message.ParseFromString(gzip.decompress(content))
    return message


def stacks(message: Any) -> dict[str, list[str]]:
    """Return by node the functions of its stack, innermost first, as `name:line`."""
    functions = {each.id: each for each in message.function}
    locations = {each.id: each.line[0] for each in message.location}
    strings = message.string_table
    found = {}
    for sample in message.sample:
        lines = [locations[number] for number in sample.location_id]
        names = [f"{strings[functions[line.function_id].name]}:{line.line}" for line in lines]
        label = next(each for each in sample.label if strings[each.key] == "node")
        found[strings[label.str]] = names
    return found


def test_every_op_is_in_it_under_its_lines() -> None:
    """An op of a line that calls others, one without code, and a gradient under its forward op."""
    message = written(ViewOptions())

    assert stacks(message) == {
        "loss": ["train:main:10"],
        "dense/product": ["net:layer:5", "train:main:10"],
        "gradients/dense/product_grad/MatMul": [
            "net:layer (gradient):5",
            "train:main (gradient):10",
        ],
        "fused": [f"{UNKNOWN}:0"],
    }


def test_all_metrics_are_in_it_with_their_units() -> None:
    """The first is time in ns, and the samples add up to the whole step."""
    message = written(ViewOptions(), known=("time_ns", "cpu_ns", "bytes"), comments=["of a test"])

    strings = message.string_table
    types = [(strings[each.type], strings[each.unit]) for each in message.sample_type]
    assert types == [("time", "nanoseconds"), ("cpu", "nanoseconds"), ("bytes", "bytes")]
    assert strings[message.default_sample_type] == "time"
    assert [strings[each] for each in message.comment] == ["of a test"]
    assert sum(sample.value[0] for sample in message.sample) == sum(MICROS.values()) * 1000


@pytest.mark.parametrize(
    "choice",
    [
        ViewOptions(trim_name_regexes=("net.*",)),
        ViewOptions(hide_name_regexes=("train.*",)),
        ViewOptions(max_depth=2),
        ViewOptions(max_depth=1),
        ViewOptions(start_name_regexes=("net.*",)),
    ],
)
def test_no_op_is_lost_with_the_line_it_was_made_at(choice) -> None:
    """It stands under the nearest line that is shown, or under none."""
    message = written(choice)

    assert set(stacks(message)) == set(MICROS)


def test_an_op_at_no_shown_line_says_so() -> None:
    """Nothing is shown above it."""
    message = written(ViewOptions(max_depth=1))

    assert stacks(message)["loss"] == [f"{NOWHERE}:0"]


def test_only_accounted_ops_are_in_it() -> None:
    """Those without code as well."""
    assert set(stacks(written(ViewOptions(account_type_regexes=("_F.*", "Sum"))))) == {
        "fused",
        "loss",
    }


def test_strings_and_numbers_are_as_pprof_wants_them() -> None:
    """String 0 is empty, ids begin at 1 and are unique, all references lead somewhere."""
    message = written(ViewOptions())

    assert message.string_table[0] == ""
    assert len(set(message.string_table)) == len(message.string_table)
    assert sorted(each.id for each in message.location) == [*range(1, len(message.location) + 1)]
    assert sorted(each.id for each in message.function) == [*range(1, len(message.function) + 1)]
    assert {len(sample.value) for sample in message.sample} == {len(message.sample_type)}
