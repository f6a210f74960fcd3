"""Access the storage behind a URL with fsspec, using only names that stay below that URL.

Every storage error becomes one paragraph. Writes nothing on this machine.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import unquote

from tfprobe.errors import TfprobeError, UnreadableInput, UsageError

AT_ONCE = 16
# A run has six levels below a directory of runs.
_DEEPEST = 8
_MOST_FILES = 5_000_000
_LONGEST_NAME_BYTES = 255
# The keys under which storages report a version of the content, most reliable first.
_STAMPS = ("ETag", "etag", "e_tag", "md5Hash", "LastModified", "Last-Modified", "last_modified")
_TIMES = ("mtime", "LastModified", "Last-Modified", "last_modified", "updated", "created")
_CONNECT_S, _SILENCE_S = 20, 60
# The year 10,000: no file has this date.
_END_OF_TIME_S = 253_402_300_800
# User and password, which may contain any character; only a port is digits up to a slash.
_USER = re.compile(r"://(?:[^/\s]*|[^/\s:@\[]*:(?!\d+/)\S*)@")
# The query after a `?`: a presigned link, which grants access to anyone, ends this way.
_SIGNATURE = re.compile(r"([?&][\w.%-]+=)[^&\s]*")
_OURS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a storage. `stamp` changes with its content; None if the storage has none."""

    key: str
    size_bytes: int | None
    stamp: str | None
    modified_s: float | None


@dataclass(frozen=True, slots=True)
class Listed:
    """The contents of one directory: files and the names of directories."""

    files: dict[str, RemoteFile]
    directories: tuple[str, ...]


class Storage:
    """A directory of a storage."""

    def __init__(self, url: str) -> None:
        """Connect, if the storage requires it. Raises UsageError and UnreadableInput."""
        self.shown = shown(url)
        with self.translated_errors("opened"):
            self._fs, root = _opened(url)
            self._fs.invalidate_cache()
        self.root = str(root).rstrip("/")
        self._is_http = root.startswith(("http://", "https://"))

    @contextmanager
    def translated_errors(self, what: str) -> Iterator[None]:
        """Turn any error of the storage into one that says what was attempted."""
        try:
            yield
        except TfprobeError:
            raise
        except FileNotFoundError as exc:
            hint = "`tfprobe ls URL` lists the runs of a directory."
            raise UnreadableInput(f"There is nothing at {self.shown}.", hint=hint) from exc
        except ImportError as exc:
            raise _package_missing(self.shown, exc) from exc
        except PermissionError as exc:
            hint = "See which credentials its package takes, from variables or a file."
            raise UnreadableInput(f"{self.shown} is closed to you.", hint=hint) from exc
        except OSError as exc:
            if exc.errno in _OURS:
                raise  # of the local disk, not of the storage
            raise self._refused(what, exc) from exc
        except Exception as exc:  # each package raises its own types, from a dozen libraries
            raise self._refused(what, exc) from exc

    def _refused(self, what: str, exc: Exception) -> UnreadableInput:
        why = f"{type(exc).__name__}: {exc}".replace("\n", " ")[:300]
        return UnreadableInput(f"{self.shown} cannot be {what} ({shown(why)}).")

    def listed(self, below: str = "") -> Listed:
        """Return the contents of a directory without names that could lead out of it."""
        directory = self._key(below)
        files: dict[str, RemoteFile] = {}
        directories: list[str] = []
        with self.translated_errors("listed"):
            for entry in self._entries(directory):
                name = self._name(entry, directory)
                if name is not None and entry.get("type") == "directory":
                    directories.append(name)
                elif name is not None and entry.get("type") == "file" and not entry.get("islink"):
                    files[name] = _remote_file(entry)
        return Listed(files, tuple(sorted(set(directories) - files.keys())))

    def _entries(self, directory: str) -> list[dict[str, Any]]:
        try:
            return list(self._fs.ls(directory, detail=True))
        except FileNotFoundError:
            if directory == self.root:
                raise
            return []  # removed since its parent directory was listed

    def files_below(self, below: str, enters: Callable[[str], bool]) -> dict[str, RemoteFile]:
        """Return all files below a directory by their names relative to it.

        `enters` returns whether to descend into a directory, given its name relative to `below`.
        """
        found: dict[str, RemoteFile] = {}
        level: list[str] = [""]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in range(_DEEPEST):
                places = [_joined(below, name) for name in level]
                deeper: list[str] = []
                for name, listed in zip(level, pool.map(self.listed, places), strict=True):
                    found.update((_joined(name, file), of) for file, of in listed.files.items())
                    inside = (_joined(name, directory) for directory in listed.directories)
                    deeper += [directory for directory in inside if enters(directory)]
                if len(found) > _MOST_FILES:
                    raise UnreadableInput(f"{self.shown} holds more files than any run.")
                level = deeper
        return found

    def known(self, files: Iterable[RemoteFile]) -> list[RemoteFile]:
        """Return the same files with their sizes, querying each one whose listing had none."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(self._known, files))

    def fetch(self, file: RemoteFile, target: str) -> bool:
        """Copy a remote file to a local path; return False if it no longer exists."""
        with self.translated_errors("read"):
            try:
                self._fs.get_file(file.key, target)
            except FileNotFoundError:
                return False
        return True

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file; None if it does not exist."""
        with self.translated_errors("read"):
            try:
                content = self._fs.cat_file(self._key(name))
            except FileNotFoundError:
                return None
        return content if isinstance(content, bytes) else None

    def put(self, source: str, name: str) -> None:
        """Upload a local file."""
        with self.translated_errors("written"):
            self._make_room(name)
            self._fs.put_file(source, self._key(name))

    def put_bytes(self, content: bytes, name: str) -> None:
        """Write a file."""
        with self.translated_errors("written"):
            self._make_room(name)
            self._fs.pipe_file(self._key(name), content)

    def _make_room(self, name: str) -> None:
        parent = self._key(name).rpartition("/")[0]
        try:
            self._fs.makedirs(parent, exist_ok=True)
        except (NotImplementedError, PermissionError):
            pass  # a storage without directories, or a bucket that exists and must not be created

    def _known(self, file: RemoteFile) -> RemoteFile:
        if file.size_bytes is not None:
            return file
        with self.translated_errors("read"):
            try:
                return _remote_file({**self._fs.info(file.key), "name": file.key})
            except FileNotFoundError:
                return file

    def _key(self, name: str) -> str:
        return _joined(self.root, name)

    def _name(self, entry: dict[str, Any], directory: str) -> str | None:
        """Return the name of an entry in its directory; None if it is not a plain name."""
        key = str(entry.get("name", "")).rstrip("/")
        if not key.startswith(f"{directory}/"):
            return None
        name = key[len(directory) + 1 :]
        if self._is_http:
            if "?" in name or "#" in name:
                return None  # a link of an index page that changes the sort order
            name = unquote(name)
        return name if is_plain(name) else None


def is_plain(name: str) -> bool:
    """Return whether a name can only mean one file in its directory."""
    if name in ("", ".", "..") or "/" in name or "\\" in name or not name.isprintable():
        return False
    return len(name.encode("utf-8", "surrogateescape")) <= _LONGEST_NAME_BYTES


def shown(url: str) -> str:
    """Return a URL, or a text that contains some, without passwords and signatures."""
    return _SIGNATURE.sub(r"\1***", _USER.sub("://***@", url))


def _opened(url: str) -> tuple[Any, str]:
    """Return fsspec's file system and the path in it. Any: fsspec ships no types."""
    import fsspec
    from fsspec.registry import known_implementations, registry

    protocol = url.partition("://")[0].rpartition("::")[2]
    known = {*known_implementations, *registry}
    if protocol not in known:
        hint = f"Some that are known: {', '.join(sorted(known & _COMMON))}."
        raise UsageError(f"{shown(url)}: no storage is called {protocol!r}.", hint=hint)
    options: dict[str, Any] = {}
    if protocol in ("http", "https"):
        import aiohttp

        timeout = aiohttp.ClientTimeout(None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
        options = {"client_kwargs": {"timeout": timeout}}
    fs, root = fsspec.url_to_fs(url, **options)
    return fs, str(root)


_COMMON = {"abfs", "file", "ftp", "gs", "hdfs", "http", "https", "memory", "s3", "sftp", "smb"}


def _package_missing(url: str, exc: ImportError) -> UsageError:
    name = (exc.name or "").partition(".")[0]
    if name == "fsspec":
        hint = "Install tfprobe[remote], which brings it."
        return UsageError(f"{url}: URLs need the package fsspec, which is not here.", hint=hint)
    known = re.search(
        r"\b(s3fs|gcsfs|adlfs|paramiko|smbprotocol|pyarrow|aiohttp|\w+fs)\b", str(exc)
    )
    package = known[1] if known else name or str(exc)
    hint = f"Install it beside tfprobe: pip install {package}."
    problem = f"{url}: this storage needs the package {package}, which is not here."
    return UsageError(problem, hint=hint)


def _remote_file(entry: dict[str, Any]) -> RemoteFile:
    size = entry.get("size")
    size_bytes = size if isinstance(size, int) and size >= 0 else None
    stamps = [f"{name}={entry[name]}" for name in (*_STAMPS, "mtime", "created") if entry.get(name)]
    modified = next((entry[name] for name in _TIMES if entry.get(name)), None)
    stamp = stamps[0] if stamps else None
    return RemoteFile(str(entry["name"]), size_bytes, stamp, _unix_s(modified))


def _unix_s(moment: object) -> float | None:
    if isinstance(moment, str):
        try:
            moment = parsedate_to_datetime(moment)
        except (TypeError, ValueError):
            return None
    if isinstance(moment, datetime):
        return moment.timestamp()
    if isinstance(moment, (int, float)) and abs(moment) < _END_OF_TIME_S:
        return float(moment)
    return None


def _joined(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory and name else directory or name
