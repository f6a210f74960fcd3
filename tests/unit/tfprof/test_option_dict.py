"""A dict of options is read as tf.profiler reads it, and what is wrong in it is told."""

from __future__ import annotations

import numpy as np
import pytest

from tfprobe.analysis.ops.cost_tree import ViewOptions
from tfprobe.errors import UsageError
from tfprobe.tfprof.options import Options, Output, options_of


def test_an_empty_dict_shows_nothing() -> None:
    """What it does not name is not the builder's default: no type is counted, no name shown."""
    found, remarks = options_of({})

    nothing = ViewOptions(
        max_depth=10,
        account_type_regexes=(),
        start_name_regexes=(),
        show_name_regexes=(),
        select=(),
        as_engine=True,
    )
    assert (found, remarks) == (Options(nothing, Output("stdout")), ())


def test_values_are_taken_over() -> None:
    """Numbers may be numpy's, lists any sequence of texts."""
    found, _ = options_of(
        {
            "max_depth": np.int64(4),
            "min_bytes": 7,
            "min_micros": 0,
            "step": 3,
            "select": ("bytes", "micros"),
            "show_name_regexes": ["a,b"],
            "output": "file:outfile=x=1.txt",
        }
    )

    assert found.choice.max_depth == 4
    assert found.choice.least == {"bytes": 7}
    assert found.choice.step == 3
    assert found.choice.select == ("bytes", "micros")
    assert found.choice.show_name_regexes == ("a,b",)
    assert found.output == Output("file", {"outfile": "x=1.txt"})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"order_by": "depth"}, "depth"),
        ({"select": ["joy"]}, "joy"),
        ({"min_joy": 1}, "min_joy"),
        ({"dump_to_file": "x"}, "outfile"),
    ],
)
def test_what_means_nothing_is_told(given, says) -> None:
    """TensorFlow passes over it, too, and does not say so."""
    _, remarks = options_of(given)

    assert [says in remark for remark in remarks] == [True]


def test_the_old_key_for_a_file_goes_first() -> None:
    """As it did."""
    found, _ = options_of({"dump_to_file": "old.txt", "output": "none"})

    assert found.output == Output("file", {"outfile": "old.txt"})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"max_depth": "deep"}, "max_depth"),
        ({"min_bytes": None}, "min_bytes"),
        ({"select": "micros"}, "list of texts"),
        ({"hide_name_regexes": 3}, "list of texts"),
        ({"output": "cinema"}, "cinema"),
        ({"output": "file"}, "needs a file"),
        ([("max_depth", 3)], "dict"),
    ],
)
def test_what_is_wrong_is_an_error(given, says) -> None:
    """One that names the option."""
    with pytest.raises(UsageError, match=says):
        options_of(given)
