"""Read run.json, process.json and config.json into values. Refuses any other schema."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.runs.agent_files import MASK, is_secret, mask_arguments, mask_text
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.safe_files import content_of

# A thousand times what a command and its environment take.
_MOST_BYTES = 16_000_000
# What json.loads gives for an object: any JSON value below a string key.
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Config:
    """What the run was asked to sample."""

    steps: tuple[tuple[int, int], ...] | None
    every: int | None
    budget_ratio: float | None
    trace_level: str


@dataclass(frozen=True, slots=True)
class RunManifest:
    """What the launcher wrote about a run.

    `services` are the profiler services that were asked, where the job was not started by tfprobe;
    `merged` the runs that this one was put together from. `name`, "" for none, and `tags` are what
    people find it by.
    """

    id: str
    command: tuple[str, ...]
    cwd: str
    host: str
    user: str
    pid: int
    boot_id: str | None
    pid_namespace: str | None
    pid_started_ticks: int | None
    started_unix_ns: int
    started: str
    tfprobe: str
    config: Config
    environment: Mapping[str, str]
    services: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    name: str = ""
    tags: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RankRecord:
    """A place in a distributed job. `serves` are others of it that the process has as well, each a
    role and a number. `restarts` is how often torchrun had started the workers again.
    """

    source: str
    index: int
    world: int | None
    role: str | None
    serves: tuple[tuple[str, int], ...] = ()
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class ServiceRecord:
    """The profiler service that recorded a process in the place of an agent.

    `steps` are the whole steps in the one trace that it gave.
    """

    address: str
    port: int
    steps: int


@dataclass(frozen=True, slots=True)
class ProcessManifest:
    """What the agent, or `tfprobe capture`, wrote about a process.

    `program` is told where multiprocessing started the process: the command that it belongs to.
    `interpreter_pid` is the process in which its interpreter began. `notebook` is the file name of
    the notebook that it is the kernel of, None where that is not known.
    """

    host: str
    pid: int
    ppid: int | None
    started_unix_ns: int
    parent: str | None
    boot_id: str | None
    pid_namespace: str | None
    pid_started_ticks: int | None
    argv: tuple[str, ...]
    executable: str
    python: str | None
    tensorflow: str | None
    keras: str | None
    devices: tuple[Json, ...] | Missing
    rank: RankRecord | None
    service: ServiceRecord | None = None
    jax: str | None = None
    torch: str | None = None
    program: tuple[str, ...] = ()
    interpreter_pid: int | None = None
    pgid: int | None = None
    pid_started_mono_ns: int | None = None
    notebook: str | None = None

    @property
    def is_fork(self) -> bool:
        """Say whether the interpreter of another process runs on in it."""
        return self.parent is not None or self.interpreter_pid not in (None, self.pid)


@dataclass(frozen=True, slots=True)
class LaunchExit:
    """How the first process of a launch ended, where the launcher stayed beside it."""

    host: str
    pid: int
    status: int | None
    signal: int | None


def read_run(path: Path) -> RunManifest:
    """Read run.json.

    Raises UnreadableInput when it is absent, half-written or of another schema.
    """
    document = _document(path, schema="tfprobe.run/1")
    take = _Fields(document, path)
    return RunManifest(
        id=take.text("id"),
        command=take.command("command"),
        cwd=take.text("cwd", default=""),
        host=take.text("host", default=""),
        user=take.text("user", default=""),
        pid=take.integer("pid"),
        boot_id=take.optional_text("boot_id"),
        pid_namespace=take.optional_text("pid_namespace"),
        pid_started_ticks=take.optional_integer("pid_started_ticks"),
        started_unix_ns=take.integer("started_unix_ns"),
        started=take.text("started", default=""),
        tfprobe=take.text("tfprobe", default=""),
        config=_config(document.get("config") or {}, path),
        environment=_masked(take.mapping("environment")),
        services=take.texts("services") if "services" in document else (),
        merged=take.texts("merged") if "merged" in document else (),
        name=mask_text(take.optional_text("name") or ""),
        tags=tuple(sorted(_masked(take.mapping("tags")).items())),
    )


def read_process(path: Path) -> ProcessManifest:
    """Read process.json.

    Raises UnreadableInput when it is absent, half-written or of another schema.
    """
    document = _document(path, schema="tfprobe.process/1")
    take = _Fields(document, path)
    service = _service(document, path)
    return ProcessManifest(
        host=take.text("host"),
        # A service does not tell the pid; 0 is nobody's.
        pid=take.integer("pid") if service is None else take.optional_integer("pid") or 0,
        ppid=take.optional_integer("ppid"),
        started_unix_ns=take.integer("started_unix_ns"),
        parent=take.optional_text("parent"),
        boot_id=take.optional_text("boot_id"),
        pid_namespace=take.optional_text("pid_namespace"),
        pid_started_ticks=take.optional_integer("pid_started_ticks"),
        argv=take.command("argv"),
        executable=take.text("executable", default=""),
        python=take.optional_text("python"),
        tensorflow=take.optional_text("tensorflow"),
        keras=take.optional_text("keras"),
        devices=_devices(document.get("devices")),
        rank=_rank(document.get("rank")),
        service=service,
        jax=_version_of(document.get("frameworks"), "jax"),
        torch=_version_of(document.get("frameworks"), "torch"),
        program=take.command("program") if document.get("program") else (),
        interpreter_pid=take.optional_integer("interpreter_pid"),
        pgid=take.optional_integer("pgid"),
        pid_started_mono_ns=take.optional_integer("pid_started_mono_ns"),
        notebook=take.optional_text("notebook"),
    )


def _version_of(frameworks: object, name: str) -> str | None:
    """Return the version of a framework that the process has imported; older agents name none."""
    version = frameworks.get(name) if isinstance(frameworks, dict) else None
    return version if isinstance(version, str) else None


def read_exit(path: Path) -> LaunchExit:
    """Read launches/<host>-<pid>.exit.json.

    Raises UnreadableInput when it is absent, half-written or of another schema.
    """
    take = _Fields(_document(path, schema="tfprobe.exit/1"), path)
    return LaunchExit(
        host=take.text("host"),
        pid=take.integer("pid"),
        status=take.optional_integer("status"),
        signal=take.optional_integer("signal"),
    )


def read_config(path: Path) -> Config:
    """Read boot/config.json.

    Raises UnreadableInput when it is absent, half-written or of another schema.
    """
    return _config(_document(path, schema="tfprobe.config/1"), path)


class _Fields:
    """Take fields of the expected type out of one document, or say which was wrong."""

    def __init__(self, document: Json, path: Path) -> None:
        self._document = document
        self._path = path

    def text(self, key: str, *, default: str | None = None) -> str:
        value = self._document.get(key, default)
        return value if isinstance(value, str) else self._refuse(key, "text")

    def optional_text(self, key: str) -> str | None:
        value = self._document.get(key)
        return value if isinstance(value, str) else None

    def integer(self, key: str) -> int:
        value = self._document.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        return self._refuse(key, "an integer")

    def optional_integer(self, key: str) -> int | None:
        return None if self._document.get(key) is None else self.integer(key)

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._document.get(key)
        return tuple(map(str, value)) if isinstance(value, list) else self._refuse(key, "a list")

    def command(self, key: str) -> tuple[str, ...]:
        # What was recorded by an earlier version may still hold what is a secret to this one.
        return tuple(mask_arguments(self.texts(key)))

    def mapping(self, key: str) -> Json:
        value = self._document.get(key) or {}
        return value if isinstance(value, dict) else self._refuse(key, "an object")

    def _refuse(self, key: str, wanted: str) -> NoReturn:
        raise UnreadableInput(
            f"{self._path}: {key!r} should be {wanted} and is {self._document.get(key)!r:.60}.",
            hint="The file was edited, or written by another version of tfprobe.",
        )


def _document(path: Path, *, schema: str) -> Json:
    try:
        content = content_of(path, most_bytes=_MOST_BYTES)
        document = json.loads(content.decode("utf-8", "replace"))
    except OSError as exc:
        raise UnreadableInput(f"{path} cannot be read: {exc.strerror or exc}.") from exc
    except (ValueError, RecursionError) as exc:
        hint = "It was cut short or overwritten; the recording beside it may still be whole."
        raise UnreadableInput(f"{path} is not JSON ({exc}).", hint=hint) from exc
    if not isinstance(document, dict) or document.get("schema") != schema:
        found = document.get("schema") if isinstance(document, dict) else type(document).__name__
        hint = "Read it with the version of tfprobe that recorded it."
        raise UnreadableInput(f"{path} should be {schema} and is {found!r:.60}.", hint=hint)
    return document


def _masked(variables: Json) -> Mapping[str, str]:
    return {
        str(name): MASK if is_secret(str(name)) else mask_text(str(value))
        for name, value in variables.items()
    }


def _config(document: Json, path: Path) -> Config:
    try:
        ranges = document.get("steps")
        steps = None if ranges is None else tuple((int(a), int(b)) for a, b in ranges)
        every = document.get("every")
        budget = document.get("budget")
        return Config(
            steps=steps,
            every=None if every is None else int(every),
            budget_ratio=None if budget is None else float(budget),
            trace_level=str(document.get("trace_level", "full")),
        )
    except (AttributeError, TypeError, ValueError) as exc:
        raise UnreadableInput(f"{path}: the sampling settings make no sense ({exc}).") from exc


def _service(document: Json, path: Path) -> ServiceRecord | None:
    if document.get("service") is None:
        return None
    take = _Fields(_Fields(document, path).mapping("service"), path)
    return ServiceRecord(take.text("address"), take.integer("port"), max(take.integer("steps"), 0))


def _devices(value: object) -> tuple[Json, ...] | Missing:
    if not isinstance(value, list):
        return Missing("devices are noted at the first sample, and there was none")
    return tuple(device for device in value if isinstance(device, dict))


def _rank(value: object) -> RankRecord | None:
    if not isinstance(value, dict) or not isinstance(value.get("index"), int):
        return None
    world, role, restarts = value.get("world"), value.get("role"), value.get("restarts")
    return RankRecord(
        source=str(value.get("source", "")),
        index=value["index"],
        world=world if isinstance(world, int) else None,
        role=role if isinstance(role, str) else None,
        serves=tuple(_served(value.get("serves"))),
        restarts=restarts if isinstance(restarts, int) and restarts > 0 else 0,
    )


def _served(value: object) -> Iterator[tuple[str, int]]:
    for each in value if isinstance(value, list) else ():
        role, index = (each.get("role"), each.get("index")) if isinstance(each, dict) else (0, 0)
        if isinstance(role, str) and isinstance(index, int):
            yield role, index


# A launch a rank; more than that somebody has put there.
MOST_LAUNCHES = 100_000
EXIT_SUFFIX = ".exit.json"


class Launches:
    """The records in `launches/` of a run. Each is written once, so each is read once."""

    def __init__(self, folder: RunFolder) -> None:
        """Begin with nothing read."""
        self._directory = folder.launches
        self._read: dict[str, RunManifest | LaunchExit | None] = {}

    def known(self, names: Sequence[str] | None = None) -> tuple[RunManifest, ...]:
        """Return the launches that there are now, by name; what is no record of one is left out.

        `names` is what is in the directory, where that is known already.
        """
        found = self._records(names)
        return tuple(record for record in found if isinstance(record, RunManifest))

    def exits(self, names: Sequence[str] | None = None) -> tuple[LaunchExit, ...]:
        """Return how launches ended whose launchers stayed to see it."""
        return tuple(record for record in self._records(names) if isinstance(record, LaunchExit))

    def _records(self, names: Sequence[str] | None) -> list[RunManifest | LaunchExit | None]:
        names = self._names() if names is None else names[:MOST_LAUNCHES]
        for name in names:
            if name not in self._read and name.endswith(".json") and not name.startswith("."):
                self._read[name] = self._one(name)
        return [self._read.get(name) for name in names]

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self._directory))[:MOST_LAUNCHES]
        except OSError:
            return []  # the usual case: a single launch

    def _one(self, name: str) -> RunManifest | LaunchExit | None:
        path = self._directory / name
        try:
            return read_exit(path) if name.endswith(EXIT_SUFFIX) else read_run(path)
        except UnreadableInput:
            return None
