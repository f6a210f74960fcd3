"""Say what of an exposition breaks the conventions of Prometheus: what `promtool check metrics`
says, by the rules of client_golang's promlint, and more that holds for our own names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from prometheus_client import Metric

NAME = re.compile(r"[a-z][a-z0-9_]*")
# promlint's lists: what is not a base unit, abbreviations of units, and words for types.
NOT_BASE = re.compile(
    "(nano|micro|milli)seconds|minutes|hours|days|weeks|(kilo|mega|giga|kibi|mebi|gibi)bytes"
    "|bits|percent|fahrenheit|kelvin|(milli|kilo)watts"
)
ABBREVIATED = re.compile("s|ms|us|ns|sec|b|kb|mb|gb|tb|pb|m|h|d")
TYPES = re.compile("gauge|counter|histogram|summary|untyped")


def complaints(metrics: list[Metric]) -> list[str]:
    """Return what is wrong, as sentences that begin with the name of the metric."""
    names = [metric.name for metric in metrics]
    found = [f"{name}: told twice" for name in set(names) if names.count(name) > 1]
    for metric in metrics:
        found += [f"{metric.name}: {text}" for text in _complaints(metric)]
    return found


def _complaints(metric: Metric) -> Iterator[str]:
    words = metric.name.split("_")
    if not metric.documentation.strip().endswith("."):
        yield "its help is no sentence"
    if not NAME.fullmatch(metric.name):
        yield "its name is not in lower case with underscores"
    if any(map(NOT_BASE.fullmatch, words)):
        yield "its unit is no base unit"
    if any(map(ABBREVIATED.fullmatch, words)):
        yield "its unit is abbreviated"
    if any(map(TYPES.fullmatch, words)):
        yield "its name tells its type"
    if metric.unit and not metric.name.endswith(f"_{metric.unit}"):
        yield "its name does not end with its unit"
    for sample in metric.samples:
        yield from _sample(metric, sample.name, sample.labels)
    keys = [(each.name, tuple(sorted(each.labels.items()))) for each in metric.samples]
    if len(keys) != len(set(keys)):
        yield "two series have the same labels"
    if metric.type == "histogram":
        yield from _histogram(metric)
    if metric.type in ("counter", "histogram") and any(each.value < 0 for each in metric.samples):
        yield "it counts below 0"


def _sample(metric: Metric, name: str, labels: dict[str, str]) -> Iterator[str]:
    if metric.type == "counter" and not name.endswith("_total"):
        yield "a counter must end with _total"
    if metric.type != "counter" and name.endswith("_total"):
        yield "only a counter ends with _total"
    if metric.type != "histogram" and re.search("_(bucket|count|sum)$", name):
        yield "only a histogram ends with _bucket, _count or _sum"
    if metric.type != "histogram" and {"le", "quantile"} & set(labels):
        yield "only a histogram has the label le"
    for label in labels:
        if not NAME.fullmatch(label) or label.startswith("__"):
            yield f"label {label!r} is no name"
        if label == metric.name or label in ("job", "instance"):
            yield f"label {label!r} belongs to somebody else"


def _histogram(metric: Metric) -> Iterator[str]:
    buckets: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    counts: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in metric.samples:
        labels = {name: text for name, text in sample.labels.items() if name != "le"}
        key = tuple(sorted(labels.items()))
        if sample.name.endswith("_bucket"):
            buckets.setdefault(key, []).append((float(sample.labels["le"]), sample.value))
        if sample.name.endswith("_count"):
            counts[key] = sample.value
    for key, rows in buckets.items():
        if rows != sorted(rows) or [count for _, count in rows] != sorted(c for _, c in rows):
            yield "its buckets do not rise"
        if rows[-1] != (math.inf, counts.get(key)):
            yield "its +Inf bucket is not its count"
