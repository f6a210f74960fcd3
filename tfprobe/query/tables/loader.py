"""Fill the tables that a query uses with rows of runs; read nothing else."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tfprobe.errors import TfprobeError
from tfprobe.profile.profile import Problem, Profile
from tfprobe.query.process_pool import Died
from tfprobe.query.queries import FailedShard
from tfprobe.query.run_reports import answer
from tfprobe.query.shards import Shard, load_shard, rest_of, shards_in
from tfprobe.query.tables import small_tables
from tfprobe.query.tables.capture_cache import Choice, Kept, forget_damaged, kept, this_process
from tfprobe.query.tables.catalogue import BY_NAME, HISTORY, HISTORY_QUERY, SHAPES
from tfprobe.query.tables.database import (
    Array,
    close,
    columns,
    files,
    literal,
    name,
    plain,
    query_connection,
    registered,
)
from tfprobe.query.tables.run_tables import TableShape, TableSource
from tfprobe.query.tables.small_tables import RowPlace, account_rows, found_in, step_columns
from tfprobe.runs import safe_files
from tfprobe.runs.catalogue import RunEntry, glance
from tfprobe.runs.layout import RunFolder, children
from tfprobe.runs.liveness import Machine

Watch = Callable[[int, int], None]
# The error of a table that was not read because the query's use of it could not be seen.
UNREAD = "tfprobe: not read: "
_IN_FILES = ("allocations", "executions", "spans")


def look_at(
    runs: Sequence[RunFolder], here: Machine, *, rank: int | None = None
) -> tuple[tuple[RunEntry, ...], Mapping[Shard, RowPlace]]:
    """Return summaries of the runs and their processes, with `rank` only those of that rank.

    Raises NoAnswer if no process has that rank.
    """
    entries = tuple(glance(run, here) for run in runs)
    places = {
        shard: RowPlace(entry.folder.id, number)
        for entry in entries
        for number, shard in enumerate(shards_in(entry))
    }
    chosen = [shard for entry in entries for shard in shards_in(entry, rank=rank)]
    return entries, {shard: places[shard] for shard in chosen}


class TableLoader:
    """Runs as tables of a DuckDB connection, which is closed together with this."""

    def __init__(
        self,
        entries: Sequence[RunEntry],
        shards: Mapping[Shard, RowPlace],
        scratch: Path,
        *,
        here: Machine,
        rank: int | None = None,
        choose: Choice = this_process,
    ) -> None:
        """Read nothing yet of these processes; `scratch` must exist as long as this.

        `here` and `rank` are those they were selected by; `choose` picks a runner by the number of
        processes and the bytes of their captures.
        """
        self._entries = tuple(entries)
        self.shards = shards
        self.scratch = scratch
        self._here = here
        self._rank = rank
        self._choose = choose
        self._watch: Watch | None = None
        self._read: set[str] = set()
        self._kept: tuple[Kept, ...] | None = None
        self._rest: dict[str, Profile] = {}
        # Processes that could not be read: without their captures, and with them.
        self._lost: dict[Shard, FailedShard] = {}
        self._lost_captures: dict[Shard, FailedShard] = {}
        self._lost_accounts: dict[Shard, FailedShard] = {}
        self.connection = query_connection(scratch, [entry.folder.tables for entry in entries])
        self._kinds: dict[str, str] = {}
        for shape in SHAPES:
            self._refuse(shape)
        self.connection.execute(f"CREATE VIEW {HISTORY.name} AS {HISTORY_QUERY}")

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return the problems so far; the table `problems` has them, too."""
        problems = [
            Problem(*problem) for kept in self._kept or () for problem in kept.contents.problems
        ]
        return (*(lost.problem() for lost in self._all_lost().values()), *problems)

    def close(self) -> None:
        """Release everything, and stop a running query.

        Raises StillWorking if that cannot be stopped.
        """
        close(self.connection)

    def only(self, shard: Shard) -> TableLoader:
        """Return tables of one process, which must be closed; captures are not decoded again."""
        place = {shard: self.shards[shard]}
        alone = TableLoader(self._entries, place, self.scratch, here=self._here, rank=self._rank)
        alone._kept = tuple(each for each in self._captured() if each.shard == shard)
        return alone

    def read(self, tables: Collection[str], watch: Watch | None = None) -> None:
        """Fill these tables. The others have columns, but fail when their rows are queried.

        `watch(done, all)` gets the number of processes read.
        """
        self._watch = watch
        new = [shape for shape in SHAPES if shape.name in tables and shape.name not in self._read]
        for shape in new:
            self._empty(shape)
        self._read.update(shape.name for shape in new)
        names = {shape.name for shape in new}
        if names & {"runs", "interpreters", "accelerators"}:
            self._read_runs(names)
        if names & {*small_tables.OF_PROCESS, "steps"}:
            self._read_processes(names)
        if "account" in names:
            self._read_accounts()
        if any(shape.source is TableSource.CAPTURES for shape in new):
            self._read_captures(names)

    def read_damaged_again(self) -> bool:
        """Rewrite files whose rows could not be read; return whether there were any."""
        if self._kept is None or not forget_damaged(self._kept):
            return False
        self._kept = None
        lost = [name for name in self._read if BY_NAME[name].source is TableSource.CAPTURES]
        self._read.difference_update(lost)
        self.read(lost, self._watch)
        return True

    def _empty(self, shape: TableShape) -> None:
        self._put(shape, "TABLE", f"({_declared(shape)})")

    def _refuse(self, shape: TableShape) -> None:
        """Replace a table by one that has its columns but fails when it is read."""
        nothing = ", ".join(
            f"CAST(NULL AS {column.type}) AS {name(column.name)}" for column in shape.columns
        )
        said = f"error({literal(UNREAD + shape.name)} || left(range::VARCHAR, 0))"
        self._put(shape, "VIEW", f"AS SELECT {nothing} FROM range(1) WHERE CAST({said} AS BOOL)")

    def _put(self, shape: TableShape, kind: str, what: str) -> None:
        """Replace whatever has this name by a table or a view."""
        before = self._kinds.get(shape.name)
        if before is not None:
            self.connection.execute(f"DROP {before} {shape.name}")
        self.connection.execute(f"CREATE {kind} {shape.name} {what}")
        self._kinds[shape.name] = kind

    def _read_runs(self, names: Collection[str]) -> None:
        if "runs" in names:
            self._insert("runs", map(small_tables.run_row, self._entries))
        for entry in self._entries:
            run = entry.folder.id
            if "interpreters" in names:
                self._insert(
                    "interpreters", small_tables.interpreter_rows(run, self._rest_of(entry))
                )
            if "accelerators" in names:
                self._insert(
                    "accelerators", small_tables.accelerator_rows(run, self._rest_of(entry))
                )

    def _rest_of(self, entry: RunEntry) -> Profile:
        run = str(entry.folder.root)
        if run not in self._rest:
            hosts = sorted({process.folder.host for process in entry.processes})
            self._rest[run] = rest_of(entry, hosts)
        return self._rest[run]

    def _read_processes(self, names: Collection[str]) -> None:
        runner = self._choose(len(self.shards), 0)
        with closing(runner.run(load_without_captures, list(self.shards))) as results:
            for done, ((shard, place), profile) in enumerate(
                zip(self.shards.items(), results, strict=True), 1
            ):
                if isinstance(profile, Profile):
                    self._insert_process(names, profile, place)
                else:
                    self._lost[shard] = FailedShard(shard, profile.reason)
                self._tell(done, len(self.shards))
        if self._lost and "problems" in self._read.difference(names):
            self._empty(BY_NAME["problems"])
            self._insert("problems", self._problem_rows())

    def _read_accounts(self) -> None:
        for entry in self._entries:
            run = str(entry.folder.root)
            places = {shard: at for shard, at in self.shards.items() if shard.run == run}
            if not places:
                continue
            report = answer(
                entry.folder, self._here, rank=self._rank, choose=self._choose, watch=self._watch
            )
            found = found_in(report.report, places)
            for shard, place in places.items():
                if shard in found:
                    self._insert("account", account_rows(found[shard], place))
                else:
                    self._lost_accounts[shard] = FailedShard(
                        shard, "The report of its run lacks it."
                    )

    def _insert_process(self, names: Collection[str], profile: Profile, place: RowPlace) -> None:
        for table, rows in small_tables.OF_PROCESS.items():
            if table in names:
                self._insert(table, rows(profile, place))
        if "steps" in names:
            for columns in step_columns(profile, place):
                self._insert_columns("steps", columns)

    def _read_captures(self, names: Collection[str]) -> None:
        found = self._captured()
        places = [self.shards[each.shard] for each in found]
        for table in _IN_FILES:
            if table in names:
                self._show_files(BY_NAME[table], found)
        if "captures" in names:
            rows = [
                row for each, at in zip(found, places, strict=True) for row in _captures(each, at)
            ]
            self._insert("captures", rows)
        if "programs" in names:
            rows = [
                row for each, at in zip(found, places, strict=True) for row in _programs(each, at)
            ]
            self._insert("programs", rows)
        if "problems" in names:
            self._insert("problems", self._problem_rows())

    def _captured(self) -> tuple[Kept, ...]:
        if self._kept is None:
            answers = kept(list(self.shards), self.scratch, self._choose, self._watch)
            self._kept = tuple(each for each in answers if isinstance(each, Kept))
            self._lost_captures = {
                each.shard: each for each in answers if isinstance(each, FailedShard)
            }
        return self._kept

    def _all_lost(self) -> Mapping[Shard, FailedShard]:
        """Return why each process could not be read, once for each."""
        return self._lost_accounts | self._lost | self._lost_captures

    def _show_files(self, shape: TableShape, found: Sequence[Kept]) -> None:
        """Make a table a view of Parquet files, of which only the columns in use are read."""
        having = [each for each in found if shape.name in each.files]
        if not having:
            return
        places = [self.shards[each.shard] for each in having]
        by_file = {
            "run": f"[{', '.join(literal(plain(place.run)) for place in places)}]",
            "process": f"[{', '.join(str(place.process) for place in places)}]::BIGINT[]",
        }
        selected = ", ".join(
            f"list_extract({by_file[column.name]}, file_index::BIGINT + 1) AS {column.name}"
            if column.name in by_file
            else name(column.name)
            for column in shape.columns
        )
        paths = files(each.files[shape.name] for each in having)
        source = f"read_parquet({paths}, hive_partitioning = false)"
        self._put(shape, "VIEW", f"AS SELECT {selected} FROM {source}")

    def _problem_rows(self) -> Iterator[small_tables.Row]:
        for entry in self._entries:
            for problem in self._rest_of(entry).problems:
                yield entry.folder.id, None, problem.where, problem.what
        for shard, lost in self._all_lost().items():
            problem, place = lost.problem(), self.shards[shard]
            yield place.run, place.process, problem.where, problem.what
        for each in self._captured():
            place = self.shards[each.shard]
            for where, what in each.contents.problems:
                yield place.run, place.process, where, what

    def _insert(self, table: str, rows: Iterable[small_tables.Row]) -> None:
        known = tuple(rows)
        if known:
            self._insert_columns(table, columns(BY_NAME[table], known))

    def _insert_columns(self, table: str, columns: Mapping[str, Array]) -> None:
        shape = BY_NAME[table]
        selected = ", ".join(
            f"CAST({name(column.name)} AS {column.type})" for column in shape.columns
        )
        with registered(self.connection, "new rows", columns):
            self.connection.execute(f'INSERT INTO {table} SELECT {selected} FROM "new rows"')

    def _tell(self, done: int, count: int) -> None:
        if self._watch is not None:
            self._watch(done, count)


def load_without_captures(shard: Shard) -> Profile | Died:
    """Return the profile of a process without its captures; a function that any runner may call."""
    try:
        return load_shard(shard, with_captures=False, with_memory=False, with_spans=False)
    except TfprobeError as exc:
        return Died(str(exc))
    except OSError as exc:
        return Died(f"{exc.strerror or exc}.")


# Any: values of cells.
def _captures(found: Kept, place: RowPlace) -> Iterator[tuple[Any, ...]]:
    contents = found.contents
    for capture in contents.captures:
        yield (place.run, place.process, contents.host, contents.rank, *capture)


def _programs(found: Kept, place: RowPlace) -> Iterator[tuple[Any, ...]]:
    contents = found.contents
    for program in contents.programs:
        yield (place.run, place.process, contents.host, contents.rank, *program)


def _declared(shape: TableShape) -> str:
    return ", ".join(f"{name(column.name)} {column.type}" for column in shape.columns)


# Large tables get one file per process, the others a single file.
LARGE = ("allocations", "calls", "executions", "spans", "steps")
# Version 1 of the format, which every reader supports.
_OPTIONS = "FORMAT parquet, PARQUET_VERSION v1, COMPRESSION zstd"
_CHUNK_BYTES = 1 << 20
_NO_PROCESS = "none.parquet"
_ODD = re.compile(r"[^\w.-]", re.ASCII)
# Names that an earlier export may have used: `_NO_PROCESS`, or NUMBER-HOST-PID-START.
_OURS = re.compile(r"(\d{4,}-.+-\d+-\d{9,}|none)\.parquet", re.DOTALL)


def export(
    tables: TableLoader, target: Path, watch: Callable[[int, int], None] | None = None
) -> None:
    """Write all tables below a directory; each file is written atomically.

    Links below the directory are not followed.

    Files of large tables from an earlier export are removed: readers of `executions/*.parquet`
    would count them, too.

    Raises OSError if something cannot be written.
    """
    target.mkdir(parents=True, exist_ok=True)
    _remove_others(tables, target)
    small = [shape.name for shape in SHAPES if shape.name not in LARGE]
    tables.read(small, watch)
    for table in small:
        _write(tables, table, target, f"{table}.parquet")
    for done, (shard, place) in enumerate(tables.shards.items(), 1):
        _export_process(tables, shard, place, target)
        if watch is not None:
            watch(done, len(tables.shards))
    if not tables.shards:
        tables.read(LARGE)
        for table in LARGE:
            _write(tables, table, target / table, _NO_PROCESS)


def _remove_others(tables: TableLoader, target: Path) -> None:
    """Remove files of large tables that have names of ours and are not written now."""
    new = {_file_name(shard, place) for shard, place in tables.shards.items()} or {_NO_PROCESS}
    for directory in (target / table for table in LARGE):
        for path in children(directory) if safe_files.is_directory(target, directory) else ():
            if _OURS.fullmatch(path.name) and path.name not in new and not os.path.isdir(path):
                safe_files.unlink(target, path)


def _export_process(tables: TableLoader, shard: Shard, place: RowPlace, target: Path) -> None:
    alone = tables.only(shard)
    try:
        alone.read(LARGE)
        for table in LARGE:
            _write(alone, table, target / table, _file_name(shard, place))
    finally:
        alone.close()


def _file_name(shard: Shard, place: RowPlace) -> str:
    """Return a name that is unique to the process and safe as a path."""
    return _ODD.sub("_", f"{place.process:04}-{shard.host}-{shard.folder}") + ".parquet"


def _write(tables: TableLoader, table: str, directory: Path, name: str) -> None:
    columns = ", ".join(column.name for column in BY_NAME[table].columns)
    made = tables.scratch / "table.parquet"
    query = f"SELECT {columns} FROM {table}"
    tables.connection.execute(f"COPY ({query}) TO {literal(str(made))} ({_OPTIONS})")
    root = directory.parent if directory.name == table else directory
    with (
        safe_files.directory(root, directory, make=True, private=False) as place,
        safe_files.replacing(place / name) as file,
        made.open("rb") as source,
    ):
        shutil.copyfileobj(source, file, _CHUNK_BYTES)
    made.unlink()
