"""Send answers to an OpenTelemetry collector by OTLP over HTTP: the same table, the same names.

Needs the extra `otlp`. Instruments of OpenTelemetry count what a program does itself; a histogram
that another process has counted cannot be observed by one. So the data that they would make is made
here, and handed to the exporter. Names are those of Prometheus without `_total`, which a collector
adds again.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from itertools import pairwise
from urllib.parse import urlsplit, urlunsplit

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import export
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

import tfprobe
from tfprobe.errors import UsageError
from tfprobe.live.metrics.exporter import Exporter, MetricsAnswer
from tfprobe.live.metrics.family import BOUNDS_S, Exposed, Family, FamilyKind, Histogram, Series

METRICS_PATH = "/v1/metrics"
# The exporter tries again within this time, which is no longer than the shortest interval.
TIMEOUT_S = 5.0
# By the Unified Code for Units of Measure; a collector makes the suffixes of Prometheus of them.
_UNITS = {"seconds": "s", "bytes": "By", "ratio": "1", "watts": "W", "celsius": "Cel"}
_CUMULATIVE = export.AggregationTemporality.CUMULATIVE
_LOGGER = logging.getLogger("opentelemetry")


class Pusher:
    """Sends answers to one collector; what it does not take is dropped, and counted."""

    def __init__(self, url: str, exporter: Exporter, complain: Callable[[str], None]) -> None:
        """Take where the collector is; `complain` is told when it stops and begins to answer.

        Raises UsageError for a URL that is none.
        """
        self.url = metrics_url(url)
        self._exporter = exporter
        self._complain = complain
        self._reasons = _Reasons()
        _LOGGER.addHandler(self._reasons)
        _LOGGER.propagate = False
        self._sender = OTLPMetricExporter(
            endpoint=self.url, timeout=TIMEOUT_S, compression=Compression.Gzip
        )
        self._dropped = 0

    def push(self) -> bool:
        """Send the metrics of now, and say whether the collector took them."""
        self._reasons.last = ""
        result = self._sender.export(metrics_data(self._exporter.answer()))
        if result is export.MetricExportResult.SUCCESS:
            self._note_success()
            return True
        self._note_drop()
        return False

    def close(self) -> None:
        """Hang up."""
        self._sender.shutdown()
        _LOGGER.removeHandler(self._reasons)
        _LOGGER.propagate = True

    def _note_success(self) -> None:
        if self._dropped:
            self._complain(f"{self.url} takes metrics again; {self._dropped} answers were dropped.")
        self._dropped = 0

    def _note_drop(self) -> None:
        self._exporter.note_drop()
        self._dropped += 1
        if self._dropped == 1:
            why = self._reasons.last or "no reason given"
            self._complain(f"{self.url} takes no metrics: {why}. They are dropped until it does.")


class _Reasons(logging.Handler):
    """Keeps what the exporter last wrote to its log: its answer has no reason for a failure."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage().rstrip(".")


def metrics_url(url: str) -> str:
    """Return where a collector takes metrics: the path is added where a URL has none.

    Raises UsageError for what is no URL of HTTP.
    """
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        hint = "Use one such as http://localhost:4318."
        raise UsageError(f"--otlp {url!r} is not an HTTP URL.", hint=hint)
    path = parts.path if parts.path.strip("/") else METRICS_PATH
    return urlunsplit(parts._replace(path=path))


def metrics_data(answer: MetricsAnswer) -> export.MetricsData:
    """Return an answer as OpenTelemetry has it: cumulative, each counter from its own start."""
    metrics = [_metric(family, answer.at_unix_ns) for family in answer.families if family.series]
    scope = InstrumentationScope("tfprobe", tfprobe.__version__)
    about = {"service.name": "tfprobe", "service.version": tfprobe.__version__}
    resource = Resource.create({**about, "host.name": socket.gethostname()})
    scopes = [export.ScopeMetrics(scope, metrics, schema_url="")]
    return export.MetricsData([export.ResourceMetrics(resource, scopes, schema_url="")])


def _metric(exposed: Exposed, at_unix_ns: int) -> export.Metric:
    family = exposed.family
    name = family.name.removesuffix("_total") if family.kind is FamilyKind.COUNTER else family.name
    unit = _UNITS.get(family.unit, "")
    return export.Metric(name, family.help, unit, _data(exposed, at_unix_ns))


def _data(exposed: Exposed, at_unix_ns: int) -> export.Sum | export.Gauge | export.Histogram:
    if exposed.family.kind is FamilyKind.HISTOGRAM:
        return export.Histogram(list(_histograms(exposed, at_unix_ns)), _CUMULATIVE)
    points = list(_numbers(exposed, at_unix_ns))
    if exposed.family.kind is FamilyKind.COUNTER:
        return export.Sum(points, _CUMULATIVE, is_monotonic=True)
    return export.Gauge(points)


def _numbers(exposed: Exposed, at_unix_ns: int) -> Iterator[export.NumberDataPoint]:
    for series in exposed.series:
        if not isinstance(series.value, Histogram):
            labels = _labels(exposed.family, series)
            yield export.NumberDataPoint(labels, series.since_unix_ns, at_unix_ns, series.value)


def _histograms(exposed: Exposed, at_unix_ns: int) -> Iterator[export.HistogramDataPoint]:
    for series in exposed.series:
        if isinstance(series.value, Histogram):
            yield _histogram(_labels(exposed.family, series), series.value, series, at_unix_ns)


def _histogram(
    labels: dict[str, str], value: Histogram, series: Series, at_unix_ns: int
) -> export.HistogramDataPoint:
    counts = [after - before for before, after in pairwise((0, *value.cumulative))]
    return export.HistogramDataPoint(
        attributes=labels,
        start_time_unix_nano=series.since_unix_ns,
        time_unix_nano=at_unix_ns,
        count=value.count,
        sum=value.sum_s,
        bucket_counts=counts,
        explicit_bounds=BOUNDS_S,
        # Optional in the protocol, and written only where they are numbers.
        min=None,  # type: ignore[arg-type]
        max=None,  # type: ignore[arg-type]
    )


def _labels(family: Family, series: Series) -> dict[str, str]:
    """Return the labels that say something: to Prometheus an empty one is not there."""
    pairs = zip(family.labels, series.labels, strict=True)
    return {name: text for name, text in pairs if text}
