"""Write an answer as Prometheus or OpenMetrics text, by prometheus-client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import Metric, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from tfprobe.live.metrics.family import BOUNDS_S, Exposed, Family, FamilyKind, Histogram, Series

_SUFFIXES = {FamilyKind.COUNTER: "_total", FamilyKind.INFO: "_info"}
_BOUNDS = (*map(floatToGoString, BOUNDS_S), "+Inf")


@dataclass(frozen=True)
class Families(Collector):
    """What a registry of prometheus-client collects: the families of one answer."""

    exposed: Iterable[Exposed]

    def collect(self) -> Iterator[Metric]:
        """Give each family with its samples."""
        return map(_metric, self.exposed)


def registry(families: Iterable[Exposed], *, with_exporter: bool) -> CollectorRegistry:
    """Return a registry of one answer; `with_exporter` adds CPU and memory of this process."""
    found = CollectorRegistry()
    found.register(Families(tuple(families)))
    if with_exporter:
        ProcessCollector(registry=found)
    return found


def text(
    families: Iterable[Exposed], accept: str = "", *, with_exporter: bool = False
) -> tuple[bytes, str]:
    """Return an answer in the format that a client accepts, and the content type of it."""
    try:
        encode, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is no number
        encode, content_type = choose_encoder("")
    return encode(registry(families, with_exporter=with_exporter)), content_type


def _metric(exposed: Exposed) -> Metric:
    family = exposed.family
    name = family.name.removesuffix(_SUFFIXES.get(family.kind, ""))
    metric = Metric(name, family.help, family.kind.value, family.unit)
    metric.samples = [sample for each in exposed.series for sample in _samples(family, each)]
    return metric


def _samples(family: Family, series: Series) -> Iterator[Sample]:
    labels = dict(zip(family.labels, series.labels, strict=True))
    value = series.value
    if not isinstance(value, Histogram):
        yield Sample(family.name, labels, value)
        return
    for bound, count in zip(_BOUNDS, value.cumulative, strict=True):
        yield Sample(f"{family.name}_bucket", {**labels, "le": bound}, count)
    yield Sample(f"{family.name}_count", labels, value.count)
    yield Sample(f"{family.name}_sum", labels, value.sum_s)
