"""Files that change have another fingerprint, whatever else lies in their directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.questions import ELSEWHERE, write_ranks
from tfprobe.query.cache import capture_bytes, files_of
from tfprobe.query.process_pool import Here
from tfprobe.query.queries import compare_ranks
from tfprobe.runs.layout import ProcessFolder, RunFolder

# Which of them a directory lists after a link is the file system's affair: of so many some are.
CAPTURES = [f"{step:06}-session_run-0.run_metadata.pb" for step in range(10, 42)]
LINKS = [f"{step:06}-session_run-0.run_metadata.pb" for step in range(50, 58)]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run of one process, among whose captures are links that lead nowhere."""
    run = RunFolder(write_ranks(tmp_path / "run", 1))
    for name in LINKS:
        (run.processes()[0].captures / name).symlink_to("nowhere")
    return run


def _write(folder: ProcessFolder, size: int) -> None:
    for name in CAPTURES:
        folder.capture(name).write_bytes(b"\xff" * size)


def test_a_link_that_leads_nowhere_hides_no_other_file(run) -> None:
    """A capture that changes is another one, wherever its directory lists it."""
    (folder,) = run.processes()
    _write(folder, 1)
    before = capture_bytes(folder)
    fingerprints = {files_of(folder).fingerprint}

    for name in CAPTURES:
        folder.capture(name).write_bytes(b"\xff\xff")
        fingerprints.add(files_of(folder).fingerprint)

    assert len(fingerprints) == 1 + len(CAPTURES)
    assert files_of(folder).capture_bytes == before + len(CAPTURES)


def test_a_link_that_leads_nowhere_is_a_file_itself(run) -> None:
    """One more is another process folder: whoever reads it says what is wrong with it."""
    (folder,) = run.processes()
    before = files_of(folder)

    folder.capture("000060-session_run-0.run_metadata.pb").symlink_to("nowhere")

    after = files_of(folder)
    assert after.fingerprint != before.fingerprint
    assert after.capture_bytes == before.capture_bytes


def test_ranks_are_compared_beside_a_link_that_leads_nowhere(run) -> None:
    """How much there is to decode is only a guess of the time it takes."""
    given = []

    def choose(shards: int, size_bytes: int) -> Here:
        given.append(size_bytes)
        return Here()

    found = compare_ranks(run, ELSEWHERE, choose)

    assert [row.process.rank for row in found.across.rows] == [0]
    assert given == [capture_bytes(run.processes()[0])]
