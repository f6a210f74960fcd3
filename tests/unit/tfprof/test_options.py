"""tfprof's options are read as the old program read them, and wrong ones are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfprobe.errors import UsageError
from tfprobe.tfprof.options import NAMES, Options, lines, parse

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cli.md"


def test_both_spellings_mean_the_same() -> None:
    """`-name value` of the shell and `--name=value` of the command line."""
    shell = parse(["-max_depth", "3", "-min_bytes", "10", "-select", "micros,bytes"], Options())
    flags = parse(["--max_depth=3", "--min_bytes=10", "--select=micros,bytes"], Options())

    assert shell == flags
    assert (shell.choice.max_depth, shell.choice.least["bytes"]) == (3, 10)
    assert shell.choice.select == ("micros", "bytes")


def test_lists_lose_quotes_and_empty_items() -> None:
    """A shell's quotes that reached us are no part of a regex."""
    options = parse(["-show_name_regexes", "'a.*,,b'"], Options())

    assert options.choice.show_name_regexes == ("a.*", "b")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-account_displayed_op_only"], True),
        (["-account_displayed_op_only", "-max_depth", "2"], True),
        (["-account_displayed_op_only", "Yes"], True),
        (["-account_displayed_op_only=f"], False),
    ],
)
def test_a_switch_may_stand_alone(words: list[str], expected: bool) -> None:
    """Alone, or before another option, it is on."""
    assert parse(words, Options()).choice.account_displayed_op_only is expected


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["-no_such", "1"], "-no_such"),
        (["-max_depth"], "-max_depth"),
        (["-max_depth", "-step", "1"], "-max_depth"),
        (["-max_depth", "deep"], "deep"),
        (["-order_by", "depth"], "depth"),
        (["-select", "micros,joy"], "joy"),
        (["-account_displayed_op_only", "perhaps"], "perhaps"),
        (["-output", "paper"], "paper"),
        (["-output", "timeline"], "outfile"),
        (["-output", "file:outfile="], "outfile"),
        (["-output", "stdout:outfile=x"], "outfile"),
        (["scope"], "scope"),
    ],
)
def test_a_wrong_option_is_named(words: list[str], names: str) -> None:
    """The message names what is wrong."""
    with pytest.raises(UsageError) as caught:
        parse(words, Options())

    assert names in str(caught.value)


def test_the_list_of_options_is_in_the_engines_layout() -> None:
    """One a line, the value from column 29 on; lists joined by commas."""
    listed = lines(parse(["-select", "params,micros", "-output", "file:outfile=a=b"], Options()))

    assert "-max_depth                  10\n" in listed
    assert "-account_displayed_op_only  false\n" in listed
    assert "-select                     micros,params\n" in listed
    assert "-output                     file:outfile=a=b\n" in listed
    assert len(listed.splitlines()) == 21


def test_the_page_names_every_option() -> None:
    """docs/cli.md has each; those about metrics by the metric."""
    section = PAGE.read_text(encoding="utf-8").partition("## tfprobe tfprof\n")[2]
    section = section.partition("\n## ")[0]

    assert {name for name in NAMES if name.removeprefix("min_") not in section} == set()
