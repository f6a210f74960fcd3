"""A request for samples is written so that a running agent can take it."""

from __future__ import annotations

import struct

import pytest

from tests.support.rundir import LAYOUT, steps_bin
from tfprobe.errors import UnreadableInput, UsageError
from tfprobe.runs.trace_requests import request_samples, request_status


def test_a_request_raises_the_sequence(tmp_path):
    """Each request has the next sequence, with its count and its work before it."""
    path = tmp_path / "steps.bin"
    path.write_bytes(steps_bin([], {LAYOUT.REQUEST: 4, LAYOUT.REQUEST_SEEN: 4}))

    sequence = request_samples(path, samples=3, loop=1)

    words = struct.unpack_from("<3q", path.read_bytes(), 32 * 8)
    assert (sequence, words) == (5, (5, 3, 1))
    assert request_status(path).seen == 4


def test_a_senseless_count_is_a_usage_error(tmp_path):
    """Nothing is written for a count out of range."""
    with pytest.raises(UsageError):
        request_samples(tmp_path / "steps.bin", samples=0)


def test_only_a_steps_file_is_written_to(tmp_path):
    """A request never damages a file which is something else."""
    path = tmp_path / "steps.bin"
    path.write_bytes(b"something else")

    with pytest.raises(UnreadableInput):
        request_samples(path, samples=1)
    assert path.read_bytes() == b"something else"


@pytest.mark.parametrize(("word", "has_ended"), [(0, False), (1, True), (77, False)])
def test_only_the_agent_says_that_sampling_has_ended(tmp_path, word, has_ended):
    """It writes a 1 there; anything else is garbage of somebody else's."""
    path = tmp_path / "steps.bin"
    path.write_bytes(steps_bin([], {LAYOUT.TRACING_ENDED: word}))

    assert request_status(path).sampling_ended is has_ended
