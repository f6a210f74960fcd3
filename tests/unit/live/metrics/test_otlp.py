"""What a collector of OpenTelemetry receives is what Prometheus would have scraped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import looks
from tests.support.collector import Collector
from tests.support.rundir import UNIX_NS
from tfprobe.errors import UsageError
from tfprobe.live.metrics.exporter import Exporter
from tfprobe.live.metrics.family import BOUNDS_S
from tfprobe.live.metrics.otlp import Pusher, metrics_url
from tfprobe.live.metrics.subjects import Limits


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.close()


@pytest.fixture
def said() -> list[str]:
    return []


def exporter(now_s: list[float] | None = None) -> Exporter:
    """An exporter that looks anew at each answer."""
    ticks = iter(range(0, 10**9, 100))
    return Exporter(looks.fleet, limits=Limits(), clock=lambda: float(next(ticks)))


@pytest.fixture
def pusher(collector, said) -> Iterator[Pusher]:
    found = Pusher(collector.url, exporter(), said.append)
    yield found
    found.close()


def attributes(point: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in point.attributes}


def test_a_collector_receives_every_metric(collector, pusher, said):
    """By the names of Prometheus, but for `_total`, which it adds itself."""
    assert pusher.push() is True

    names = set(collector.metrics())
    assert collector.paths == ["/v1/metrics"]
    assert {"tfprobe_steps", "tfprobe_step_duration_seconds", "tfprobe_run_info"} <= names
    assert not any(name.endswith("_total") for name in names)
    assert said == []


def test_steps_are_a_sum_that_only_grows(collector, pusher):
    """Cumulative, from the start of the process."""
    pusher.push()

    sum_ = collector.metrics()["tfprobe_steps"].sum
    (point,) = sum_.data_points
    assert (sum_.is_monotonic, sum_.aggregation_temporality) == (True, 2)
    assert (point.as_int, point.start_time_unix_nano) == (100, UNIX_NS)
    assert attributes(point) == {
        "run": "20261120-200418-train-4f2a9c",
        "host": "node7",
        "process": "4711-1",
        "kind": "session_run",
        "name": "loss",
    }


def test_step_times_are_a_histogram_with_the_bounds_of_prometheus(collector, pusher):
    """Bucket by bucket, not cumulative, as OpenTelemetry has it."""
    pusher.push()

    metric = collector.metrics()["tfprobe_step_duration_seconds"]
    (point,) = metric.histogram.data_points
    counts = list(point.bucket_counts)
    assert metric.unit == "s"
    assert metric.histogram.aggregation_temporality == 2
    assert tuple(point.explicit_bounds) == BOUNDS_S
    assert len(counts) == len(BOUNDS_S) + 1
    assert (sum(counts), point.count, point.sum) == (100, 100, 1.0)
    assert counts[BOUNDS_S.index(0.012582912)] == 100
    assert not point.HasField("min")


def test_units_are_those_of_ucum(collector, pusher):
    """From which a collector makes the suffixes of Prometheus, where they are not there."""
    pusher.push()

    units = {name: metric.unit for name, metric in collector.metrics().items()}
    assert units["tfprobe_process_resident_memory_bytes"] == "By"
    assert units["tfprobe_process_overhead_ratio"] == "1"
    assert units["tfprobe_process_threads"] == ""


def test_a_label_without_a_text_is_not_sent(collector, pusher):
    """To Prometheus it is not there either."""
    pusher.push()

    (point,) = collector.metrics()["tfprobe_process_info"].gauge.data_points
    told = attributes(point)
    assert told["tensorflow"] == "2.21.0"
    assert "rank" not in told


def test_the_resource_says_who_sends(collector, pusher):
    """And from which host."""
    pusher.push()

    (resource,) = collector.received[-1].resource_metrics
    told = attributes(resource.resource)
    assert told["service.name"] == "tfprobe"
    assert {"service.version", "host.name"} <= set(told)


def test_a_collector_that_refuses_is_told_of_once(collector, pusher, said):
    """Its answers are dropped and counted; when it takes them again, that is told, too."""
    collector.status = 400
    taken = [pusher.push(), pusher.push()]
    collector.status = 200
    taken.append(pusher.push())

    (dropped,) = collector.metrics()["tfprobe_exporter_dropped_answers"].sum.data_points
    assert taken == [False, False, True]
    assert dropped.as_int == 2
    assert len(said) == 2
    assert said[0].startswith(f"{collector.url}/v1/metrics takes no metrics: ")
    assert "Bad Request" in said[0]
    assert said[1] == f"{collector.url}/v1/metrics takes metrics again; 2 answers were dropped."


def test_a_collector_that_is_not_there_is_told_of_in_one_line(said, capfd, monkeypatch):
    """Without a trace or a log of the library."""
    monkeypatch.setattr("tfprobe.live.metrics.otlp.TIMEOUT_S", 0.1)
    gone = Collector()
    gone.close()
    pusher = Pusher(gone.url, exporter(), said.append)

    taken = pusher.push()

    pusher.close()
    assert taken is False
    assert len(said) == 1
    assert "\n" not in said[0]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://c:4318", "http://c:4318/v1/metrics"),
        ("http://c:4318/", "http://c:4318/v1/metrics"),
        ("https://c/otlp/v1/metrics", "https://c/otlp/v1/metrics"),
        ("http://[::1]:4318", "http://[::1]:4318/v1/metrics"),
    ],
)
def test_a_url_without_a_path_gets_that_of_metrics(given: str, url: str):
    """As OTEL_EXPORTER_OTLP_ENDPOINT is read."""
    assert metrics_url(given) == url


@pytest.mark.parametrize(
    "given", ["", "collector:4318", "grpc://c:4317", "http://", "http://c:x", "http://[c"]
)
def test_what_is_no_url_is_told(given: str):
    """With one that is."""
    with pytest.raises(UsageError, match=r"not an HTTP URL.*http://localhost:4318"):
        metrics_url(given)
