"""The timeline of many ranks is on one clock, and says how sure that is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.support.profiles import Step, loop, op, process, profile
from tests.support.rundir import UNIX_NS
from tfprobe.analysis.distributed import synchronization_events
from tfprobe.analysis.distributed.aligned import aligned
from tfprobe.analysis.distributed.clocks import Clock, Clocks
from tfprobe.errors import Missing
from tfprobe.export.run_timeline import run_timeline
from tfprobe.profile.profile import Profile

MS = 1_000_000
REDUCE = "CollectiveReduceV2"
UNKNOWN = Missing("it meets nobody")


def ranks(*rows: Any) -> Profile:
    """Return a profile in which each process has one step of these rows; ranks count down."""
    steps = [Step(each) for each in rows]
    processes = [
        process(index=at, pid=100 + at, rank=len(rows) - 1 - at, role="worker")
        for at in range(len(rows))
    ]
    loops = [loop(process=at) for at in range(len(rows))]
    found = profile(steps, loops=loops, processes=processes)
    captures = tuple(replace(each, process=each.index, step=7) for each in found.captures)
    return replace(found, captures=captures)


def clocks(*offsets_ns: int | Missing) -> Clocks:
    return Clocks(
        0, tuple(Clock(at, each, 2_000, "9 collectives") for at, each in enumerate(offsets_ns))
    )


def document(found: Profile, by: Clocks, *, as_recorded: bool = False) -> Any:  # Any: JSON
    together = aligned(
        found, synchronization_events.find_events(found), by, as_recorded=as_recorded
    )
    return json.loads("".join(run_timeline(together)))


def boxes(found: Any, name: str) -> list[Any]:
    return [each for each in found["traceEvents"] if each.get("name") == name and "dur" in each]


def late_by_a_clock() -> Profile:
    """The second process is 5 ms ahead by its clock: what it did at once stands 5 ms later."""
    return ranks([op(REDUCE, 100, 50)], [op(REDUCE, 5_130, 20)])


def test_ranks_are_placed_on_the_clock_of_the_reference() -> None:
    """A collective ends at one moment in all of them."""
    found = document(late_by_a_clock(), clocks(0, 5 * MS))

    first, second = boxes(found, f"n/{REDUCE}")
    assert found["otherData"]["start_unix_ns"] == str(UNIX_NS - 5 * MS)
    assert (first["ts"], second["ts"]) == (5100.0, 5130.0)


def test_times_can_stay_as_they_were_recorded() -> None:
    """To look at the clocks themselves; what is told of waiting is on one clock all the same."""
    found = document(late_by_a_clock(), clocks(0, 5 * MS), as_recorded=True)

    first, second = boxes(found, f"n/{REDUCE}")
    assert (first["ts"], second["ts"]) == (100.0, 5130.0)
    assert first["args"]["waited_us"] == 30.0
    assert found["otherData"]["times"] == "as recorded"


def test_the_file_says_how_each_clock_was_moved() -> None:
    """With how sure that is, and by what it is known."""
    found = document(ranks([op("Sum", 0, 1)], [op("Sum", 0, 1)]), clocks(0, 5 * MS))

    labels = [
        each["args"]["labels"] for each in found["traceEvents"] if each["name"] == "process_labels"
    ]
    assert labels == ["moved by -5000.000 us +- 2.000 us, 9 collectives", "reference clock"]
    assert found["otherData"]["clocks"][1] == {
        "process": "rank 0",
        "host": "node7",
        "pid": 101,
        "rank": 0,
        "is_reference": False,
        "offset_ns": "5000000",
        "applied_ns": "5000000",
        "error_ns": "2000",
        "basis": "9 collectives",
    }


def test_a_process_whose_clock_is_unknown_stays_on_its_own_and_says_so() -> None:
    """Nobody can say who came before whom, and nobody does."""
    found = document(late_by_a_clock(), clocks(0, UNKNOWN))

    first, second = boxes(found, f"n/{REDUCE}")
    assert second["ts"] == 5130.0
    assert "last" not in first["args"]
    assert found["otherData"]["clocks"][1]["missing"] == "it meets nobody"


def test_ranks_stand_in_their_order() -> None:
    """However their processes were called; what a rank did stands together."""
    found = document(ranks([op("Sum", 0, 1)], [op("Sum", 0, 1)]), clocks(0, 0))

    about = [each for each in found["traceEvents"] if each["ph"] == "M"]
    names = {each["pid"]: each["args"]["name"] for each in about if each["name"] == "process_name"}
    places = {
        each["args"]["sort_index"]: names[each["pid"]]
        for each in about
        if each["name"] == "process_sort_index"
    }
    assert [places[at] for at in sorted(places)] == [
        "rank 0 (worker) node7 101: steps",
        "rank 0 (worker) node7 101: d",
        "rank 1 (worker) node7 100: steps",
        "rank 1 (worker) node7 100: d",
    ]


def test_a_collective_names_its_peers_and_who_came_last() -> None:
    """One number finds the others by a search."""
    found = document(ranks([op(REDUCE, 100, 50)], [op(REDUCE, 130, 20)]), clocks(0, 0))

    first, second = (each["args"] for each in boxes(found, f"n/{REDUCE}"))
    assert first["meeting"] == second["meeting"]
    assert (first["with"], second["with"]) == ("rank 0", "rank 1")
    assert (first["last"], first["waited_us"]) == ("rank 0", 30.0)
    assert (second["last"], second["waited_us"]) == ("rank 0", 0.0)


def test_an_arrow_leads_from_a_send_to_its_receive() -> None:
    """It ends inside the box of the receive, where viewers look for it."""
    ends = [f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in (0, 1)]
    told = f"[4B] grad from {ends[0]} to {ends[1]}"
    send, receive = (
        op(kind, start, 40)._replace(name=f"n/{kind}", detail=f"edge_1_grad; {told}")
        for kind, start in (("_Send", 100), ("_Recv", 120))
    )
    found = document(ranks([send], [receive]), clocks(0, 0))

    begin, end = (
        next(each for each in found["traceEvents"] if each["ph"] == phase and each["cat"] == "send")
        for phase in "sf"
    )
    assert (begin["ts"], end["ts"]) == (100.0, 159.999)
    assert begin["pid"] != end["pid"]
