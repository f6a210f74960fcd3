"""The report document has the keys of tfprobe.report/1, and JSON can hold it."""

from __future__ import annotations

import json

from tests.support.profiles import Step, loop, op, process, profile
from tfprobe.errors import Missing
from tfprobe.profile.profile import Problem
from tfprobe.report.documents.run_report import gather_report, report_document


def test_the_document_has_the_promised_keys():
    """What the design promises of --json is there, in µs and fractions."""
    found = report_document(
        gather_report(profile([Step([op("Relu", 0, 50)])], loops=[loop(kind="fit")]))
    )

    assert found["schema"] == "tfprobe.report/1"
    assert found["run"].keys() == {
        *("id", "dir", "command", "started", "name", "tags", "state", "why_unknown"),
    }
    (shown,) = found["processes"]
    assert shown.keys() >= {"host", "pid", "rank", "python", "tensorflow", "state", "work"}
    assert shown["overhead"].keys() >= {"fraction", "traced_ns", "hook_ns"}
    (one,) = shown["work"]
    assert (one["kind"], one["count"], one["mean_ns"]) == ("fit", 10, 1_000_000)
    assert one.keys() >= {"name", "sampled", "total_ns", "p50_ns", "p95_ns", "max_ns"}
    assert found["breakdown"].keys() == {
        "unit",
        "before",
        "on",
        "after",
        "other",
        "other_of_which",
        "bound_by",
    }
    assert found["ops"][0].keys() >= {"type", "occurrences", "accelerator_ns", "cpu_ns", "bytes"}
    assert found["findings"] == []


def test_missing_data_has_its_reason_and_json_can_hold_it():
    """A run without captures, versions or steps.bin still makes one valid document."""
    bare = process(python=Missing("x"), tensorflow=Missing("x"), hooks=Missing("no steps.bin"))
    problems = (Problem("node7", "broken"),)

    found = report_document(
        gather_report(profile(processes=[bare], loops=[loop([])], problems=problems))
    )

    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["breakdown"] == {"missing": "no step was traced"}
    assert found["processes"][0]["overhead"] == {"missing": "no steps.bin"}
    assert found["processes"][0]["work"][0]["missing"] == "no step was completed"


def test_works_are_shown_longest_first():
    """The loop that took most of the time is the first line."""
    loops = [loop([10], index=0, name="small"), loop([10**9], index=1, name="big")]

    (shown,) = gather_report(profile(loops=loops)).processes

    assert [item.loop.name for item in shown.loops] == ["big", "small"]
