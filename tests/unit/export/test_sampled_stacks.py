"""Stacks that were sampled, as files of speedscope and pprof."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest

from tests.support.profiles import process, profile
from tests.support.stacks import MAIN, MS, sampled
from tfprobe.analysis.system.stack_samples import process_trees
from tfprobe.export.speedscope import stacks_pprof, stacks_speedscope
from tfprobe.formats.schema import message_class
from tfprobe.profile.activities import SampledThread

POOL = SampledThread(78, "pool_0")


@pytest.fixture
def found():
    """Two threads, of which one has no Python for a while."""
    stacks = sampled(
        {MAIN: [(0, "main fit"), (60, "main load"), (90, "")], POOL: [(0, "work")]}, end_ms=100
    )
    return process_trees(replace(profile(loops=[], processes=[process()]), stacks=(stacks,)))


def test_speedscope_has_a_profile_for_each_thread(found) -> None:
    """With file and line of each frame."""
    document = json.loads(stacks_speedscope(found, name="r1: 100 samples"))

    frames = [each["name"] for each in document["shared"]["frames"]]
    first, second = document["profiles"]
    stacks = [[frames[at] for at in stack] for stack in first["samples"]]
    assert document["name"] == "r1: 100 samples"
    assert sorted(zip(stacks, first["weights"], strict=True)) == [
        (["(no Python frame)"], 10 * MS),
        (["<module>", "fit"], 60 * MS),
        (["<module>", "load"], 30 * MS),
    ]
    assert second["name"].endswith("pool_0 (78)")
    assert {"name": "load", "file": "/work/train.py", "line": 9} in document["shared"]["frames"]


def test_pprof_has_all_time_with_labels(found) -> None:
    """The innermost location first; process and thread are labels."""
    content = stacks_pprof(found, comments=["100 samples"])

    message = message_class("tfprobe.pprof.Profile")()
    message.ParseFromString(gzip.decompress(content))
    texts = message.string_table
    functions = {each.id: texts[each.name] for each in message.function}
    locations = {each.id: functions[each.line[0].function_id] for each in message.location}
    (load,) = [each for each in message.sample if locations[each.location_id[0]] == "train:load"]
    labels = {texts[each.key]: texts[each.str] for each in load.label}
    assert [locations[each] for each in load.location_id] == ["train:load", "train:<module>"]
    assert labels["thread"] == "MainThread (77)"
    assert sum(each.value[0] for each in message.sample) == 200 * MS
    assert [texts[each] for each in message.comment] == ["100 samples"]
