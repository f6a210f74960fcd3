"""What to do is said in the names of the TensorFlow that the job runs."""

from __future__ import annotations

import pytest

from tests.support.subjects import MS, found, loop, parts, process, timing
from tfprobe.analysis.core.releases import RENAMED, in_names_of, release_of
from tfprobe.analysis.input.step_input import StepInput
from tfprobe.errors import Missing
from tfprobe.findings.rule import TracedStep

SMALL = timing(usual_step_ns=1.0 * MS)


@pytest.mark.parametrize(
    ("version", "release"),
    [("1.14.0", (1, 14)), ("2.21.0-rc1", (2, 21)), ("2.4", (2, 4))],
)
def test_a_version_has_a_release(version: str, release: tuple[int, int]) -> None:
    """Its first two numbers."""
    assert release_of(version) == release


@pytest.mark.parametrize("version", ["", "nightly", Missing("it said nothing")])
def test_what_is_no_version_has_none(version: str | Missing) -> None:
    """Then the names of today are as good as any."""
    assert isinstance(release_of(version), Missing)


@pytest.mark.parametrize(("first", "today", "before"), RENAMED)
def test_older_releases_have_older_names(first: tuple[int, int], today: str, before: str) -> None:
    """Up to the release that brought the name of today, which keeps it."""
    text = f"Try {today} and {today}."

    older = in_names_of((first[0], first[1] - 1), text)

    assert older == f"Try {before} and {before}."
    assert in_names_of((1, 14), older) == older
    assert in_names_of(first, text) == text
    assert in_names_of(Missing("not known"), text) == text


def test_a_finding_is_in_the_names_of_its_process() -> None:
    """The rules know the names of today alone."""
    of_input = StepInput(bottleneck="Map", own_ns=MS, iterator="", nodes=("Map",))
    waiting = loop(process=process(release=(1, 15)), parts=parts(input_wait=0.5), input=of_input)

    finding = found("dataset_serial", waiting)

    assert finding is not None
    assert "tf.data.experimental.AUTOTUNE" in finding.action
    assert "tf.data.AUTOTUNE" not in finding.action


@pytest.mark.parametrize(
    ("release", "capture", "may"),
    [
        ((2, 21), "000005-fit-0.xplane.pb", True),
        ((2, 4), "000005-fit-0.xplane.pb", True),
        ((2, 3), "000005-fit-0.xplane.pb", False),
        ((1, 15), "000005-fit-0.run_metadata.pb", False),
        ((2, 12), "000005-fit-0.run_metadata.pb", False),
    ],
)
def test_several_steps_in_one_call_are_told_where_keras_can(
    release: tuple[int, int], capture: str, may: bool
) -> None:
    """Not before 2.4, and not in graph mode, where the argument is an error."""
    fit = loop(
        process=process(release=release),
        timing=SMALL,
        parts=parts(idle=0.5),
        traced_steps=(TracedStep(5, capture),),
    )

    finding = found("small_executions", fit)

    assert finding is not None
    assert ("steps_per_execution" in finding.action) == may


@pytest.mark.parametrize(("release", "may"), [((2, 5), True), ((2, 4), False)])
def test_parallel_batches_are_told_where_there_are_any(release: tuple[int, int], may: bool) -> None:
    """Dataset.batch takes num_parallel_calls from 2.5 on."""
    nodes = ("Prefetch", "Batch", "Map")
    of_input = StepInput(bottleneck="Map", own_ns=MS, iterator="", nodes=nodes)
    waiting = loop(process=process(release=release), parts=parts(input_wait=0.5), input=of_input)

    finding = found("dataset_serial", waiting)

    assert finding is not None
    assert (".batch(" in finding.action) == may
