"""The dashboard and the page of metrics tell of the metrics that there are."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tfprobe.live.metrics.exporter import FAMILIES
from tfprobe.live.metrics.family import Family, FamilyKind

DOCS = Path(__file__).parents[4] / "docs"
DASHBOARD = json.loads((DOCS / "grafana" / "tfprobe.json").read_text(encoding="utf-8"))
PAGE = (DOCS / "metrics.md").read_text(encoding="utf-8")
RULES = (DOCS / "grafana" / "tfprobe.rules.yml").read_text(encoding="utf-8")
# What Prometheus and Grafana have of their own.
BUILT_IN = {"__rate_interval", "__all"}
COUNTING = r"_(?:total|bucket|sum|count)"


def samples(family: Family) -> set[str]:
    """The names that series of a family have."""
    if family.kind is not FamilyKind.HISTOGRAM:
        return {family.name}
    return {f"{family.name}{ending}" for ending in ("_bucket", "_count", "_sum")}


NAMES = {name for family in FAMILIES for name in samples(family)}
LABELS = {label for family in FAMILIES for label in family.labels} | {"le"}


def expressions() -> list[str]:
    """What the panels and variables ask for."""
    panels = (
        target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())
    )
    variables = (each["query"] for each in DASHBOARD["templating"]["list"])
    asked = [each["query"] for each in variables if isinstance(each, dict)]
    return [*panels, *asked]


def rules() -> list[str]:
    """What the rules ask for."""
    found = re.findall(r"^ +expr: (?:\|\n((?: {10,}.*\n)+)|(.*))", RULES, re.MULTILINE)
    return [block or line for block, line in found]


def walked(value: Any, key: str) -> Iterator[Any]:
    """Give whatever stands under a key, however deep."""
    if isinstance(value, dict):
        yield from (found for name, found in value.items() if name == key)
        for each in value.values():
            yield from walked(each, key)
    if isinstance(value, list):
        for each in value:
            yield from walked(each, key)


@pytest.mark.parametrize("expr", [*expressions(), *rules()])
def test_every_query_is_of_metrics_and_labels_that_there_are(expr: str):
    """A panel without data would look like a job that does nothing."""
    asked = set(re.findall(r"(?<![\w:])tfprobe_\w+(?![\w:])", expr))
    grouped = re.findall(r"\b(?:by|on|group_left|without) \(([^)]*)\)", expr)
    matched = re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)", expr)
    labels = {label.strip() for group in grouped for label in group.split(",")} | set(matched)

    assert asked - NAMES == set()
    assert labels - LABELS == set()
    assert expr.count("(") == expr.count(")")


@pytest.mark.parametrize("expr", [*expressions(), *rules()])
def test_counters_are_asked_for_their_rate_and_nothing_else_is(expr: str):
    """The rate of a gauge means nothing, and neither does a counter by itself."""
    # Without matchers, and without the names of recording rules, which have colons.
    bare = re.sub(r"\{[^{}]*\}|\w+:\w+:\w+", "", expr)
    counters = re.findall(rf"(\w+\()?tfprobe_\w+?{COUNTING}\b", bare)
    rated = re.findall(r"\b(?:rate|increase)\((\w+)", bare)

    assert {each for each in counters if each not in ("rate(", "increase(")} == set()
    assert {each for each in rated if not re.search(f"{COUNTING}$", each)} == set()


def test_panels_are_laid_out_like_a_page():
    """Each has its id and its place, within 24 columns, over no other."""
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (column, line)
        for at in places
        for column, line in itertools.product(
            range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])
        )
    ]

    assert len(set(ids)) == len(ids)
    assert len(set(cells)) == len(cells)
    assert max(column for column, _ in cells) == 23


def test_every_panel_asks_the_data_source_that_was_chosen():
    """None of them one that is only on the machine where the dashboard was made."""
    sources = {json.dumps(each) for each in walked(DASHBOARD["panels"], "datasource")}

    assert sources == {json.dumps({"type": "prometheus", "uid": "${datasource}"})}


def test_variables_are_there_and_used():
    """Each `$name`."""
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD)))

    assert used - BUILT_IN == variables


def test_the_queries_of_a_panel_have_names_of_their_own():
    """Grafana keeps one of two by the same."""
    for panel in DASHBOARD["panels"]:
        names = [target["refId"] for target in panel.get("targets", ())]
        assert len(set(names)) == len(names)


def test_the_page_lists_every_metric():
    """With its type, its labels and its text, and no other."""
    row = r"^\| `(tfprobe_\w+)` \| (\w+) \| ([^|]*) \| (.*) \|$"
    rows = re.findall(row, PAGE, re.MULTILINE)

    listed = {
        name: (kind, tuple(re.findall(r"\w+", labels)), text) for name, kind, labels, text in rows
    }

    exposed = {family.name: (family.kind.value, family.labels, family.help) for family in FAMILIES}
    assert listed == exposed


def test_the_page_explains_every_alert():
    """Among them the one that everybody wants: a job that is stuck."""
    alerts = set(re.findall(r"alert: (\w+)", RULES))

    assert {"TfprobeJobStuck", "TfprobeJobStalled", "TfprobeStraggler"} <= alerts
    assert set(re.findall(r"`(Tfprobe\w+)`", PAGE)) == alerts
