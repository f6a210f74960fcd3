"""Make the rows of `account` from the answer of `report`, so that both say the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tfprobe.analysis.account.account import Account
from tfprobe.analysis.account.ledger import Item, Part
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process
from tfprobe.query.shards import Shard
from tfprobe.query.tables.facts import Place, Row
from tfprobe.query.tables.shapes import PROCESS_KEY, Shape, Source, real, text, whole
from tfprobe.report.documents.run_report import Report

ACCOUNT = Shape(
    "account",
    "What the wall time of each process went to, in parts that sum to it: docs/account.md.",
    Source.REPORT,
    (
        *PROCESS_KEY,
        text(
            "part", "part of the account: productive, imports, compile, input_wait ..., not_known"
        ),
        text("what", "item of the part; NULL: the rest of it"),
        text("file", "file of the job; NULL: no line is known"),
        whole("line", "line in that file"),
        whole("ns", "time; the rows of a process sum to its wall time"),
        real("ratio", "share of the wall time of the process"),
        whole(
            "samples",
            "number of traced steps or watched gaps it was derived from; NULL: measured in full",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class ProcessAccount:
    """A process of a report with its account."""

    process: Process
    account: Account | Missing


def found_in(report: Report, shards: Iterable[Shard]) -> Mapping[Shard, ProcessAccount]:
    """Return the processes that a report tells of; it has them in the order of the shards."""
    told = [
        ProcessAccount(each.process, account)
        for each, account in zip(report.processes, report.accounts, strict=True)
    ]
    found: dict[Shard, ProcessAccount] = {}
    for shard in shards:
        # By the folder alone: the host of a folder may be called otherwise by its process.
        if len(found) < len(told) and told[len(found)].process.folder == shard.folder:
            found[shard] = told[len(found)]
    return found


def account_rows(found: ProcessAccount, place: Place) -> Iterator[Row]:
    """Give the rows of a process; one without an account has none."""
    if not isinstance(found.account, Missing):
        yield from _of_process(found.process, found.account, place)


def _of_process(process: Process, account: Account, place: Place) -> Iterator[Row]:
    wall_ns = account.wall_ns or 1
    for part in account.parts:
        for item in _items(part):
            file, _, line = item.source.rpartition(":")
            yield (
                place.run,
                place.process,
                process.host,
                process.rank,
                part.category.value,
                item.what or None,
                file or None,
                int(line) if file and line.isdigit() else None,
                item.ns,
                item.ns / wall_ns,
                item.samples or None,
            )


def _items(part: Part) -> Iterator[Item]:
    """Give the items that reports name, and the rest, which is there where nothing else is."""
    named = [item for item in part.items if item.what or item.source]
    yield from named
    rest_ns = part.ns - sum(item.ns for item in named)
    if rest_ns or not named:
        yield Item("", "", rest_ns)
