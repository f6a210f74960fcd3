"""The timeline of a step: what lies on which track, in as much detail as a browser draws."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.open_runs import ToldRun
from tests.support.profiles import Span, Step, loop, op, process, profile
from tests.support.rundir import UNIX_NS
from tfprobe.errors import NoAnswer, UsageError
from tfprobe.profile.activities import Activity, Gap
from tfprobe.profile.capture_tables import Executions, Place, SpanKind
from tfprobe.profile.profile import Profile
from tfprobe.profile.tables import Strings
from tfprobe.web.pages.timeline import slices, step_timeline
from tfprobe.web.params import Params

GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
# Names may be anything: markup, quotes, a million letters, letters that turn the text around.
HOSTILE = ("<script>alert(1)</script>", "'\"&", "x" * 1_000_000, "\u202eabc", "../..", "a\nb\0")


def _kernel(name: str, start_us: int, duration_us: int, **more: Any) -> Any:  # Any: a row
    row = op(name, start_us, duration_us, Place.ACCELERATOR, **more)
    return row._replace(device=GPU, lane="stream 7")


def _recorded(**changes: Any) -> Profile:
    """A step with a thread of Python, one of TensorFlow, one of tf.data, and a GPU."""
    rows = [
        op("MatMul", 10, 5)._replace(lane="tf_Compute/6167580136691581643"),
        op("Relu", 20, 5)._replace(lane="tf_Compute/6167580136691581643"),
        op("Map", 0, 50, background=True)._replace(lane="tf_data/1132456193653718022"),
        _kernel("MatMul", 16, 60, correlation=9),
    ]
    told = [
        Span(SpanKind.FUNCTION_CALL, "train_step", 0, 90, lane="python"),
        Span(SpanKind.LAUNCH, "cuLaunchKernel", 11, 2, lane="tf_Compute/6167580136691581643"),
    ]
    found = profile([Step(rows, spans=told)], loops=[loop()], **changes)
    spans = replace(found.spans, correlation=np.array([0, 9]))
    return replace(found, spans=spans)


def _receiving(count: int) -> Profile:
    """A thread that computes, and `count` receives that wait on it at once."""
    lane = "tf_Compute/6167580136691581643"
    receives = [op("_Recv", 0, 50 + at)._replace(lane=lane) for at in range(count)]
    return profile([Step([op("MatMul", 10, 5)._replace(lane=lane), *receives])], loops=[loop()])


def _ask(found: Profile, of: Any = step_timeline.document, **arguments: Any) -> Any:  # Any: JSON
    document = of(ToldRun(found), Params({name: str(value) for name, value in arguments.items()}))
    return json.loads(json.dumps(document, allow_nan=False))


def _drawn(document: Any) -> list[tuple[str, str, int, float, float]]:
    """Return (track, name, row in it, start, length in us) of what is drawn."""
    firsts = np.cumsum([0, *(track["rows"] for track in document["tracks"])])
    slices = document["slices"]
    found = []
    for at, row in enumerate(slices["row"]):
        track = int(np.searchsorted(firsts, row, side="right")) - 1
        name = document["names"][slices["name"][at]]
        start, length = slices["start_ns"][at] / 1000, slices["length_ns"][at] / 1000
        found.append(
            (document["tracks"][track]["name"], name, row - int(firsts[track]), start, length)
        )
    return found


def test_receives_are_below_the_threads_that_work() -> None:
    """Forty of them wait at once, and would push the other threads off the screen."""
    found = _ask(_receiving(40), capture=0)

    assert [(each["group"], each["rows"]) for each in found["tracks"]] == [
        ("Step", 1),
        ("Host threads", 1),
        ("Receives", 40),
    ]


def test_threads_and_streams_are_tracks() -> None:
    """In the order of a reader: the step, Python, other threads, accelerators, input."""
    found = _ask(_recorded(), capture=0)

    assert [(each["group"], each["name"]) for each in found["tracks"]] == [
        ("Step", "step"),
        ("Host threads", "python"),
        ("Host threads", "tf_Compute 1"),
        ("GPU:0", "stream 7"),
        ("Input threads", "tf_data 1"),
    ]
    assert _drawn(found) == [
        ("step", "session_run 0", 0, 0, 100),
        ("python", "train_step", 0, 0, 90),
        ("tf_Compute 1", "n/MatMul", 0, 10, 5),
        ("tf_Compute 1", "n/Relu", 0, 20, 5),
        ("tf_Compute 1", "cuLaunchKernel", 1, 11, 2),
        ("stream 7", "n/MatMul", 0, 16, 60),
        ("tf_data 1", "n/Map", 0, 0, 50),
    ]


def test_a_slice_has_the_colour_of_its_part() -> None:
    """What schedules kernels is a launch, what prepares later steps stands apart."""
    found = _ask(_recorded(), capture=0)

    names = [found["categories"][each]["name"] for each in found["slices"]["category"]]
    assert names == [
        "step", "function_call", "kernel_launch", "host_compute", "kernel_launch",
        "device_compute_other", "background",
    ]  # fmt: skip


def test_the_band_says_what_each_moment_was_charged_to() -> None:
    """Its parts fill the step."""
    (band,) = _ask(_recorded(), capture=0)["bands"]

    assert band["device"] == "gpu:0"
    assert sum(band["total_ns"].values()) == 100_000
    assert band["total_ns"]["device_compute_other"] == 60_000
    assert sum(band["length_ns"]) == 100_000


def test_the_time_after_a_step_and_what_goes_on_around_it_are_drawn() -> None:
    """An activity that lasts for the whole run is cut to what is drawn."""
    gap = Gap(0, 0, 0, UNIX_NS + 100_000, 40_000, 0, False, ())
    fit = Activity(0, "train", "fit", "MainThread", UNIX_NS - 10**9, UNIX_NS + 10**9, 1, 2 * 10**9)

    found = _ask(replace(_recorded(), gaps=(gap,), activities=(fit,)), capture=0)

    assert _drawn(found)[:3] == [
        ("step", "session_run 0", 0, 0, 100),
        ("step", "until the next step", 0, 100, 40),
        ("activities of MainThread", "fit", 0, 0, 140),
    ]
    assert found["whole"] == {"from_ns": 0, "to_ns": 140_000}
    assert found["view"] == {"from_ns": 0, "to_ns": 100_000}


def test_the_same_step_of_other_ranks_is_beside_it() -> None:
    """With its collectives, where its clock says that it was at about that time."""
    first = profile(
        [Step([op("MatMul", 0, 10)]), Step([op("CollectiveReduceV2", 30, 40), op("Add", 0, 5)])],
        loops=[loop(), loop(process=1)],
        processes=[process(rank=0), process(index=1, pid=99, rank=1)],
    )
    far = replace(first.captures[1], process=1, step=0, start_ns=UNIX_NS + 5_000)
    found = replace(first, captures=(first.captures[0], far))

    drawn = [each for each in _drawn(_ask(found, capture=0)) if each[0].startswith("rank 1")]

    track = "rank 1, node7 pid 99"
    assert drawn == [
        (track, "session_run 0", 0, 5, 100),
        (track, "n/CollectiveReduceV2", 1, 30, 40),
    ]


def test_the_longest_slices_are_told_as_text() -> None:
    """Without those that are the whole step, or the call of all of it."""
    found = _ask(_recorded(), capture=0)["longest"]

    assert [(each["id"], each["op"], each["duration_ns"]) for each in found[:2]] == [
        ("r3", "MatMul", 60_000),
        ("r2", "Map", 50_000),
    ]
    assert found[0]["share_ratio"] == 0.6


def test_a_window_is_asked_for_by_its_times() -> None:
    """What lies outside is not in the answer."""
    found = _ask(_recorded(), capture=0, from_ns=21_000, to_ns=22_000)

    assert [name for _, name, *_ in _drawn(found)] == [
        "session_run 0", "train_step", "n/Relu", "n/MatMul", "n/Map"
    ]  # fmt: skip


def test_captures_are_listed_with_their_works() -> None:
    """The one that is drawn first is the newest of the work with most time."""
    found = _ask(profile([Step([op("A", 0, 1)]), Step([op("B", 0, 1)])], loops=[loop()]))

    assert found["chosen"] == 1
    assert [(each["capture"], each["step"], each["slices"]) for each in found["captures"]] == [
        (0, 0, 1),
        (1, 1, 1),
    ]


def test_nothing_sampled_is_said() -> None:
    """There is nothing to draw, and no such step."""
    with pytest.raises(NoAnswer):
        _ask(profile())
    with pytest.raises(NoAnswer):
        _ask(profile(), capture=0)
    with pytest.raises(UsageError):
        _ask(_recorded(), capture=1)


def test_a_slice_tells_what_launched_it() -> None:
    """By the number that a kernel shares with the call of the driver, and by its op."""
    kernel = _ask(_recorded(), slices.document, capture=0, slice="r3")
    call = _ask(_recorded(), slices.document, capture=0, slice="s1")

    assert (kernel["op"], kernel["duration_ns"], kernel["share_ratio"]) == ("MatMul", 60_000, 0.6)
    assert [(each["relation"], each["slice"]) for each in kernel["linked"]] == [
        ("launched by", "s1"),
        ("is of", "r0"),
    ]
    assert [(each["relation"], each["slice"]) for each in call["linked"]] == [("launched", "r3")]


@pytest.mark.parametrize("name", ["", "r", "r99", "q1", "r-1", "r1x", "r" + "9" * 5000, "o\u0661"])
def test_a_slice_that_is_not_there_is_said(name: str) -> None:
    """Whatever stands in the address."""
    with pytest.raises((NoAnswer, UsageError)):
        _ask(_recorded(), slices.document, capture=0, slice=name)


def test_a_search_finds_names_ops_and_spans() -> None:
    """In any case, by their start."""
    found = _ask(_recorded(), slices.search_document, capture=0, text="mAtMul")

    assert (found["count"], found["total_ns"]) == (2, 65_000)
    assert found["slices"] == ["r0", "r3"]
    assert _ask(_recorded(), slices.search_document, capture=0, text="culaunch")["slices"] == ["s1"]
    assert _ask(_recorded(), slices.search_document, capture=0, text="session")["slices"] == ["o0"]


@pytest.mark.slow
def test_hostile_names_stay_text_and_short() -> None:
    """Of a name of a million letters the end is drawn."""
    rows = [
        op("Op", 10 * at, 5)._replace(name=name, lane=name, device=name, op_type=name)
        for at, name in enumerate(HOSTILE)
    ]
    found = _ask(profile([Step(rows)], loops=[loop()]), capture=0)

    assert len(json.dumps(found)) < 30_000
    assert {HOSTILE[0], HOSTILE[1], HOSTILE[3]} <= set(found["names"])
    told = _ask(profile([Step(rows)], loops=[loop()]), slices.document, capture=0, slice="r2")
    assert len(told["name"]) == 2_001


@pytest.mark.slow
def test_a_million_slices_become_an_answer_of_a_megabyte() -> None:
    """No time is lost: what is too small to be seen is in blocks."""
    run = ToldRun(_million())

    found = step_timeline.document(run, Params({"capture": "0"}))

    slices = found["slices"]
    assert len(slices["row"]) <= step_timeline.MOST_SLICES
    assert sum(slices["count"]) == 1_000_001
    assert sum(slices["busy_ns"]) == 1_000_000 * 90 + 100_000_000
    assert not found["is_whole"]
    assert len(json.dumps(found)) < 2_000_000
    closer = step_timeline.document(
        run, Params({"capture": "0", "from_ns": "5000", "to_ns": "50000"})
    )
    assert closer["is_whole"]


def test_a_thousand_threads_are_cut_to_the_fullest() -> None:
    """And how many are left out is told."""
    rows = [op("A", at % 90, 1)._replace(lane=f"worker/{at % 500:06}") for at in range(1_000)]

    found = _ask(profile([Step(rows)], loops=[loop()]), capture=0)

    assert len(found["tracks"]) == 300
    assert found["tracks_left_out"] == 201


def _million() -> Profile:
    """A step of 100 ms with a million ops on ten threads, each followed by a pause of a tenth."""
    count = 1_000_000
    base = profile([Step([op("A", 0, 1)], duration_us=100_000)], loops=[loop()])
    names = [f"layer_{at}/op" for at in range(1000)]
    at = np.arange(count)
    nothing = np.zeros(count, dtype=np.int64)
    rows = Executions(
        strings=Strings(("", "MatMul", "/device:CPU:0", *map(str, range(10)), *names)),
        capture=nothing.astype(np.int32),
        device=np.full(count, 2, dtype=np.int32),
        lane=(3 + at % 10).astype(np.int32),
        name=(13 + at % 1000).astype(np.int32),
        op_type=np.ones(count, dtype=np.int32),
        place=nothing.astype(np.int8),
        background=np.zeros(count, dtype=np.bool_),
        start_ns=UNIX_NS + 100 * (at // 10) * 10,
        duration_ns=np.full(count, 90, dtype=np.int64),
        bytes=nothing,
        nested_ns=nothing,
        output_bytes=nothing,
        detail=nothing.astype(np.int32),
        correlation=nothing,
        collective=nothing.astype(np.int32),
    )
    return replace(base, executions=rows)
