"""A job cannot tell that it is recorded: its output is the same, byte for byte, with every step
traced.
"""

from __future__ import annotations

import pytest

from tests.tf.doors import JOBS, Job
from tests.tf.laboratory import Laboratory
from tests.tf.requirements import need


@pytest.mark.parametrize("way", ["budget", "every"])
@pytest.mark.parametrize("job", [pytest.param(job, id=job.id) for job in JOBS])
def test_losses_and_output_are_identical(laboratory: Laboratory, job: Job, way: str) -> None:
    """A seeded job prints the same losses to the last digit, and ends the same, bare and
    recorded.
    """
    need(laboratory, job)

    outcomes = laboratory.outcomes(*job.command)

    assert outcomes["bare"].stdout.decode() == outcomes[way].stdout.decode()
    assert outcomes["bare"].status == outcomes[way].status == 0
