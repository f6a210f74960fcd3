"""Where services are is said as people say it."""

from __future__ import annotations

import pytest

from tfprobe.attach.service.client import Address, addresses
from tfprobe.errors import UsageError


def test_several_services_have_commas_between() -> None:
    """One for each worker of a job, in the order of their ranks."""
    found = addresses("worker0:6009, worker1:6010,[::1]:6011,grpc://worker2:1")

    assert found == (
        Address("worker0", 6009),
        Address("worker1", 6010),
        Address("::1", 6011),
        Address("worker2", 1),
    )
    assert str(found[2]) == "[::1]:6011"


@pytest.mark.parametrize(
    "text",
    ["", "worker", "worker:", ":6009", "worker:0", "worker:65536", "worker:x", "a:1,,b:2", "/a:1"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    """The error says how one is written."""
    with pytest.raises(UsageError, match="HOST:PORT"):
        addresses(text)


def test_no_service_is_recorded_twice_at_a_time() -> None:
    """TensorFlow has one profiler in a process."""
    with pytest.raises(UsageError, match="listed twice"):
        addresses("a:1,b:1,a:1")
