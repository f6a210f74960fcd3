"""Settings: how each is written, and which source is the strongest."""

from __future__ import annotations

import re

import pytest

from tfprobe.errors import UsageError
from tfprobe.launch import grammar
from tfprobe.launch.settings import (
    BadSetting,
    default_layer,
    file_layer,
    flag_layer,
    is_disabled,
    resolve,
    variable_layer,
)


@pytest.mark.parametrize(
    ("text", "intervals"),
    [
        ("10-20,50", [[10, 20], [50, 50]]),
        ("50, 10 - 20", [[10, 20], [50, 50]]),
        ("0", [[0, 0]]),
        ("1,2,3", [[1, 3]]),
        ("5-9,1-6", [[1, 9]]),
        (7, [[7, 7]]),
    ],
)
def test_steps_are_sorted_and_merged(text, intervals) -> None:
    """Ranges are inclusive and may be given in any order."""
    assert grammar.steps(text) == intervals


@pytest.mark.parametrize("text", ["", ",", "1-", "-1", "5-1", "a", "1.5", "1--2", "9" * 30, "٣"])
def test_steps_that_are_none_are_refused(text) -> None:
    """What is no step number is no step number."""
    with pytest.raises(grammar.Unreadable):
        grammar.steps(text)


@pytest.mark.parametrize(
    ("text", "ratio"),
    [("1%", 0.01), ("0.5%", 0.005), ("0.01", 0.01), (0.02, 0.02), ("100%", 1.0), (" 2 % ", 0.02)],
)
def test_a_budget_is_a_part_of_the_time(text, ratio) -> None:
    """A percentage or a ratio."""
    assert grammar.budget(text) == pytest.approx(ratio)


@pytest.mark.parametrize("text", ["1", "0", "0%", "-1%", "101%", "nan", "inf", "%", "", True])
def test_a_budget_that_is_no_part_is_refused(text) -> None:
    """A bare 1 could mean 1 % or everything, so it means neither."""
    with pytest.raises(grammar.Unreadable):
        grammar.budget(text)


@pytest.mark.parametrize("value", ["0", "-5", "1.5", "", True, "x"])
def test_every_is_a_positive_whole_number(value) -> None:
    """There is no step to record at a distance of nothing."""
    with pytest.raises(grammar.Unreadable):
        grammar.every(value)


def test_defaults_stand_where_nothing_is_said() -> None:
    """A budget of 1 %, everything traced, below the current directory."""
    settings = resolve(variable_layer({}, "/cwd"), default_layer("/cwd"))

    assert settings.output == "/cwd/tfprobe-runs"
    assert settings.config() == {
        "schema": "tfprobe.config/1",
        "steps": None,
        "every": None,
        "budget": 0.01,
        "trace_level": "full",
    }


def test_a_flag_overrides_another_spelling_of_the_choice() -> None:
    """steps, every and budget are one setting: the stronger source decides all three."""
    flags = flag_layer({"every": "5"}, "/")
    variables = variable_layer({"TFPROBE_STEPS": "nonsense", "TFPROBE_BUDGET": "2%"}, "/")

    settings = resolve(flags, variables, default_layer("/"))

    assert (settings.steps, settings.every, settings.budget_ratio) == (None, 5, 0.01)


@pytest.mark.parametrize(("value", "level"), [("0", "off"), ("1", "full"), ("3", "full")])
def test_the_suites_own_switch_counts(value, level) -> None:
    """TENSORFLOW_MODELS_TRACE_LEVEL: 0 is off, anything else on."""
    variables = variable_layer({"TENSORFLOW_MODELS_TRACE_LEVEL": value}, "/")

    assert resolve(variables, default_layer("/")).trace_level == level


def test_our_own_level_is_above_the_suites() -> None:
    """TFPROBE_TRACE_LEVEL wins."""
    variables = {"TENSORFLOW_MODELS_TRACE_LEVEL": "0", "TFPROBE_TRACE_LEVEL": "software"}

    assert resolve(variable_layer(variables, "/"), default_layer("/")).trace_level == "software"


def test_a_wrong_flag_is_a_usage_error() -> None:
    """It stops the launch; a wrong variable only the recording."""
    with pytest.raises(UsageError, match="--every") as flag:
        resolve(flag_layer({"every": "x"}, "/"))
    with pytest.raises(BadSetting, match="TFPROBE_EVERY"):
        resolve(variable_layer({"TFPROBE_EVERY": "x"}, "/"))

    assert not isinstance(flag.value, BadSetting)


@pytest.mark.parametrize(
    ("value", "disabled"), [(None, False), ("", False), ("0", False), ("1", True), ("yes", True)]
)
def test_the_master_switch_has_a_value(value, disabled) -> None:
    """TFPROBE_DISABLE=0 records."""
    environment = {} if value is None else {"TFPROBE_DISABLE": value}

    assert is_disabled(environment) is disabled


def test_tags_of_all_sources_are_joined() -> None:
    """A cluster sets some by its variable, a person others; of one key the flag counts."""
    flags = flag_layer({"tag": ["lr=0.1", "note=a, b=c"]}, "/")
    variables = variable_layer({"TFPROBE_TAG": "lr=1,cluster=west", "TFPROBE_NAME": "nightly"}, "/")

    settings = resolve(flags, variables, default_layer("/"))

    assert settings.name == "nightly"
    assert settings.tags == {"lr": "0.1", "note": "a, b=c", "cluster": "west"}


def test_a_table_of_tags_stands_in_the_file() -> None:
    """tfprobe.toml has them as keys and values, whatever type a value is of."""
    settings = resolve(file_layer({"tag": {"lr": 0.1, "team": "vision"}}, "/x/tfprobe.toml"))

    assert settings.tags == {"lr": "0.1", "team": "vision"}


@pytest.mark.parametrize(
    ("tags", "told"),
    [
        (["lr"], "in place of 'lr'"),
        (["=1"], "in place of '=1'"),
        (["a b=1"], "use KEY=VALUE"),
        (["lr="], "use KEY=VALUE"),
        (["lr=1\n2"], "use KEY=VALUE"),
        (["lr=" + "x" * 101], "use KEY=VALUE"),
        (["lr=1", "lr=2"], "has the tag lr twice"),
    ],
)
def test_a_tag_that_is_none_is_refused(tags: list[str], told: str) -> None:
    """What is no tag ends the launch, with what one is."""
    with pytest.raises(UsageError, match=re.escape(told)):
        resolve(flag_layer({"tag": tags}, "/"))


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 101, True])
def test_a_name_is_one_printable_line(name: object) -> None:
    """What would break a listing is no name."""
    with pytest.raises(grammar.Unreadable):
        grammar.label(name)
