"""Cache the tables of each process's captures as Parquet files below derived/.

A file contains the fingerprint of its sources. One that is stale, foreign or damaged is written
again. For a running process, or if derived/ cannot be written, the file goes to a temporary
directory that lasts as long as the query.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tfprobe.errors import TfprobeError
from tfprobe.profile.profile import Profile
from tfprobe.query.cache import capture_bytes, digest, files_of, is_ours, this_program
from tfprobe.query.process_pool import Died, Here, Runner
from tfprobe.query.queries import FailedShard
from tfprobe.query.shards import Shard, load_shard
from tfprobe.query.tables import captured
from tfprobe.query.tables.captured import SIDE_TABLES, CaptureFiles, read_contents
from tfprobe.query.tables.database import can_name, files, writer
from tfprobe.query.tables.program_rows import program_rows
from tfprobe.runs import safe_files
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.liveness import LIVE

# Increase it whenever the contents of the files change.
_VERSION = 2


# Chooses the runner by the number of processes and the bytes of their captures.
Choice = Callable[[int, int], Runner]


def this_process(_shards: int, _capture_bytes: int) -> Runner:
    """Choose this process, however much there is to read."""
    return Here()


@dataclass(frozen=True, slots=True)
class Kept:
    """The files of one process by table, and their contents. Tables without rows have no file."""

    shard: Shard
    contents: CaptureFiles
    files: Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class _Item:
    """A process to read. Its files go to `instead` if `directory` cannot be written."""

    shard: Shard
    fingerprint: str
    directory: str
    instead: str


def kept(
    shards: Sequence[Shard],
    scratch: Path,
    choose: Choice,
    watch: Callable[[int, int], None] | None = None,
) -> tuple[Kept | FailedShard, ...]:
    """Return the files of each process, in order; missing ones are written.

    `watch(done, all)` gets the number of processes whose files have been written.
    """
    fingerprints = [_fingerprint(shard.process) for shard in shards]
    found: dict[Shard, Kept | FailedShard] = dict(_still_true(shards, fingerprints))
    items = [
        _Item(shard, fingerprint, str(_place(shard, scratch)), str(_elsewhere(shard, scratch)))
        for shard, fingerprint in zip(shards, fingerprints, strict=True)
        if shard not in found
    ]
    runner = choose(len(items), sum(capture_bytes(item.shard.process) for item in items))
    with closing(runner.run(_make, items)) as results:
        for item, result in zip(items, results, strict=True):
            found[item.shard] = _received(item, result)
            if watch is not None:
                watch(sum(each.shard in found for each in items), len(items))
    return tuple(found[shard] for shard in shards)


def _received(item: _Item, result: Kept | FailedShard | Died) -> Kept | FailedShard:
    if isinstance(result, Died):
        return FailedShard(item.shard, result.reason)
    if isinstance(result, Kept) and not _are_there(result):
        # Another machine has written it to a temporary directory of its own.
        return _make(item)
    return result


def forget_damaged(found: Iterable[Kept]) -> bool:
    """Remove the files whose rows cannot be read; return whether there were any."""
    damaged = [
        (each.shard, path) for each in found for path in each.files.values() if not _is_whole(path)
    ]
    for shard, path in damaged:
        safe_files.unlink(_root(shard, path), path)
    return bool(damaged)


def _root(shard: Shard, path: Path) -> Path:
    """Return the trusted directory above a file: the run, or the temporary directory."""
    run = Path(shard.run)
    return run if path.is_relative_to(run) else path.parents[1]


def _is_whole(path: Path) -> bool:
    import duckdb

    query = f"SELECT bit_xor(hash(each)) FROM read_parquet({files([path])}) AS each"
    try:
        writer().execute(query).fetchall()
    except duckdb.Error:
        return False
    return True


def _make(item: _Item) -> Kept | FailedShard:
    """Read the captures of a process and write their tables."""
    shard = item.shard
    try:
        return _write(load_shard(shard), item)
    except TfprobeError as exc:
        return FailedShard(shard, str(exc))
    except OSError as exc:
        return FailedShard(shard, f"{exc.strerror or exc}.")
    except MemoryError:
        return FailedShard(shard, "It needs more memory than there is.")


def _write(profile: Profile, item: _Item) -> Kept:
    """Write the tables of a process to the cache or, if that fails, to the temporary directory.

    Raises OSError when they can be written at neither place.
    """
    try:
        return _write_to(Path(item.directory), profile, item)
    except OSError:
        # A full disk, or something is in the way: only time is lost, on the next query.
        if item.instead == item.directory:
            raise
    return _write_to(Path(item.instead), profile, item)


def _write_to(directory: Path, profile: Profile, item: _Item) -> Kept:
    files = _files(item.shard, directory)
    if str(directory) == item.instead:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        root = directory
    else:
        root = Path(item.shard.run)
    with safe_files.directory(root, files["executions"].parent, make=True) as place:
        reached = {table: place / path.name for table, path in files.items()}
        programs = program_rows(profile, item.shard.process)
        contents = captured.write(profile, item.fingerprint, reached, programs)
    return _kept(item.shard, contents, directory)


def _kept(shard: Shard, contents: CaptureFiles, directory: Path) -> Kept:
    files = _files(shard, directory)
    return Kept(
        shard, contents, {table: files[table] for table, rows in contents.counts.items() if rows}
    )


def _place(shard: Shard, scratch: Path) -> Path:
    """Return where the files of a process are to be written."""
    run, directory = RunFolder(Path(shard.run)), _directory(shard)
    files = _files(shard, directory)
    if shard.state not in LIVE and can_name(files["executions"]) and is_ours(run):
        return directory
    return _elsewhere(shard, scratch)


def _elsewhere(shard: Shard, scratch: Path) -> Path:
    return scratch / _short(shard.run)


def _directory(shard: Shard) -> Path:
    return RunFolder(Path(shard.run)).tables


def _files(shard: Shard, directory: Path) -> Mapping[str, Path]:
    host, folder = (
        each if can_name(Path(each)) else _short(each) for each in (shard.host, shard.folder)
    )
    return {
        "executions": directory / host / f"{folder}.parquet",
        **{table: directory / host / f"{folder}.{table}.parquet" for table in SIDE_TABLES},
    }


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _fingerprint(folder: ProcessFolder) -> str:
    return digest(_VERSION, this_program(), files_of(folder).fingerprint)


def _still_true(
    shards: Sequence[Shard], fingerprints: Sequence[str]
) -> Iterator[tuple[Shard, Kept]]:
    """Yield the files that exist and whose fingerprint is still right."""
    paths = [_files(shard, _directory(shard))["executions"] for shard in shards]
    there = [
        path
        for shard, path in zip(shards, paths, strict=True)
        if can_name(path) and safe_files.is_file(_root(shard, path), path)
    ]
    contents = _contents_of(there)
    for shard, fingerprint, path in zip(shards, fingerprints, paths, strict=True):
        known = contents.get(str(path))
        if known is None or known.fingerprint != fingerprint:
            continue
        found = _kept(shard, known, _directory(shard))
        if _are_there(found):
            yield shard, found


def _are_there(found: Kept) -> bool:
    """Return whether its files are regular: not pipes, which would never end, and not links."""
    return all(safe_files.is_file(_root(found.shard, path), path) for path in found.files.values())


def _contents_of(paths: Sequence[Path]) -> Mapping[str, CaptureFiles]:
    """Return the contents that files state in their metadata, without files that are not ours."""
    import duckdb

    if not paths:
        return {}
    try:
        return _read_contents(paths)
    except duckdb.Error:
        if len(paths) == 1:
            return {}
    # One of them is damaged. Bisect, so that one bad file in a thousand costs ten queries.
    half = len(paths) // 2
    return {**_contents_of(paths[:half]), **_contents_of(paths[half:])}


def _read_contents(paths: Iterable[Path]) -> Mapping[str, CaptureFiles]:
    query = f"SELECT file_name, key, value FROM parquet_kv_metadata({files(paths)})"
    rows = writer().execute(query).fetchall()
    contents = {file: read_contents(key, value) for file, key, value in rows}
    return {file: each for file, each in contents.items() if each is not None}
