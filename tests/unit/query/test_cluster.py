"""A cluster that cannot work is refused in one paragraph that says why."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import tfprobe
from tfprobe.errors import UnreadableInput, UsageError
from tfprobe.query import cluster
from tfprobe.query.cluster import Cluster


def test_without_dask_the_extra_is_named(monkeypatch):
    """Where Dask is not installed, --dask says how to install it."""
    monkeypatch.setitem(sys.modules, "distributed", None)

    with pytest.raises(UsageError, match=r"pip install 'tfprobe\[dask\]'"):
        next(Cluster("local").run(len, ["item"]))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((tfprobe.__version__, []), ""),
        ((None, []), "has no tfprobe"),
        (("0.0.7", []), f"has tfprobe 0.0.7, and this is {tfprobe.__version__}"),
        ((tfprobe.__version__, ["/runs/r1"]), "does not see /runs/r1"),
        (
            TypeError("code() takes 18 arguments\nand more"),
            "cannot be asked (code() takes 18 argum",
        ),
    ],
)
def test_a_worker_that_cannot_read_the_run_is_told_of(answer, words):
    """Each worker needs the same tfprobe and the directory of the run, under its name."""
    problem, _ = cluster._what_is_wrong(answer)

    assert problem.startswith(words)
    assert bool(problem) == bool(words)


def test_a_cluster_that_goes_away_is_said_to_be_lost():
    """A scheduler that ends meanwhile ends the command, and does not let it wait for ever."""
    pytest.importorskip("distributed", reason="there is no Dask here")
    client = SimpleNamespace(status="closed")

    with pytest.raises(UnreadableInput, match="at tcp://host:8786 was lost meanwhile"):
        cluster._ended(client, "tcp://host:8786", [])
