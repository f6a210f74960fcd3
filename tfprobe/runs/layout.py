"""Name every path of a run directory. The only module that knows the names."""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from tfprobe.errors import UnreadableInput

DEFAULT_OUTPUT = "tfprobe-runs"
LATEST = "latest"
# Below the directory of all runs: the documents of trials.
TRIALS = "trials"
RUN_MANIFEST = "run.json"
PROCESS_MANIFEST = "process.json"
STEPS_FILE = "steps.bin"
TEMPORARY_PREFIX = ".tmp-"
# A run that is being removed: hidden, so no reader takes it for one.
REMOVING_PREFIX = ".removing-"
RUN_METADATA_SUFFIX = ".run_metadata.pb"
XSPACE_SUFFIX = ".xplane.pb"
# A trace of PyTorch's profiler, as the job wrote it or compressed since.
KINETO_SUFFIXES = (".kineto.json", ".kineto.json.gz")

# What a failing disk or file server answers: what is there is not known then, while all else that
# cannot be opened is absent, closed to this user, or not what it should be.
FAILURES = frozenset(
    {
        errno.EHOSTDOWN,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOLINK,
        errno.ENOTCONN,
        errno.EREMOTEIO,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.EUCLEAN,
    }
)
# Children of a run directory which are not hosts.
_NOT_HOSTS = frozenset({"boot", "derived", "launches", "machine", "report"})
_CAPTURE_NAME = re.compile(r"(?P<step>\d+)-(?P<kind>[a-z_]+)-(?P<work>\d+)\.")


@dataclass(frozen=True, slots=True)
class ProcessFolder:
    """The paths of one recorded process."""

    root: Path

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def host(self) -> str:
        return self.root.parent.name

    @property
    def manifest(self) -> Path:
        return self.root / PROCESS_MANIFEST

    @property
    def steps(self) -> Path:
        return self.root / STEPS_FILE

    @property
    def events(self) -> Path:
        return self.root / "events.jsonl"

    @property
    def activities(self) -> Path:
        return self.root / "activities.jsonl"

    @property
    def gaps(self) -> Path:
        return self.root / "gaps.jsonl"

    @property
    def resource_samples(self) -> Path:
        return self.root / "pulses.jsonl"

    @property
    def stacks(self) -> Path:
        """Return the file of Python stacks, which the sampler beside the job writes."""
        return self.root / "stacks.jsonl"

    @property
    def trial(self) -> Path:
        """Return the file of how far an arm of a trial was, and when."""
        return self.root / "trial.jsonl"

    @property
    def losses(self) -> Path:
        """Return the losses of a job's first steps, in an arm of a trial."""
        return self.root / "losses.json"

    @property
    def delays(self) -> Path:
        """Return the file of what parts and their delays took, in an arm of a trial."""
        return self.root / "delays.jsonl"

    @property
    def weights(self) -> Path:
        """Return the digests of a job's weights; their values are in `weight_values`."""
        return self.root / "weights.json"

    @property
    def weight_values(self) -> Path:
        return self.root / "weights.bin"

    @property
    def agent_log(self) -> Path:
        return self.root / "agent.log"

    @property
    def captures(self) -> Path:
        return self.root / "captures"

    @property
    def graphs(self) -> Path:
        return self.root / "graphs"

    @property
    def code(self) -> Path:
        return self.root / "code"

    @property
    def trace(self) -> Path:
        """Return the file of all that a profiler service recorded."""
        return self.captures / f"trace{XSPACE_SUFFIX}"

    def is_process(self) -> bool:
        """Say whether this directory looks like a process, even one that has lost a file."""
        return os.path.isfile(self.manifest) or os.path.isfile(self.steps)

    def capture(self, file_name: str) -> Path:
        return self.captures / file_name

    def graph(self, fingerprint: str) -> Path:
        return self.graphs / f"{_plain(fingerprint)}.graph.pb"

    def modules(self, fingerprint: str) -> Path:
        """Return the file with the modules of a model of PyTorch."""
        return self.graphs / f"{_plain(fingerprint)}.modules.json"

    def optimized_graph(self, fingerprint: str) -> Path:
        return self.graphs / f"{_plain(fingerprint)}.optimized.pb"

    def code_map(self, fingerprint: str) -> Path:
        return self.code / f"{_plain(fingerprint)}.json"

    def capture_files(self) -> tuple[Path, ...]:
        """Return the whole captures on disk, by name; temporary files are not captures."""
        return tuple(path for path in children(self.captures) if is_capture(path.name))


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The paths of one run."""

    root: Path

    @property
    def id(self) -> str:
        return self.root.name

    @property
    def manifest(self) -> Path:
        return self.root / RUN_MANIFEST

    @property
    def launches(self) -> Path:
        """Return the directory of what further launches wrote, each a run.json of its own."""
        return self.root / "launches"

    @property
    def boot(self) -> Path:
        return self.root / "boot"

    @property
    def config(self) -> Path:
        return self.boot / "config.json"

    @property
    def interpreters(self) -> Path:
        return self.boot / "interpreters.tsv"

    @property
    def signals(self) -> Path:
        """Return the file of signals by which processes of the job ended others of it."""
        return self.boot / "signals.tsv"

    @property
    def derived(self) -> Path:
        return self.root / "derived"

    @property
    def tables(self) -> Path:
        """Return the directory of tables in Parquet."""
        return self.derived / "tables"

    @property
    def report(self) -> Path:
        return self.root / "report"

    def machine(self, host: str) -> Path:
        """Return the file of a host's accelerators."""
        # Whatever a manifest calls its host, the file is in this directory.
        return self.root / "machine" / f"{os.path.basename(host)}.jsonl"

    def process(self, host: str, name: str) -> ProcessFolder:
        """Return the folder of a process; a host whose name means something here gets another."""
        is_taken = host in _NOT_HOSTS or host.startswith(".")
        return ProcessFolder(self.root / (f"host-{host}" if is_taken else host) / name)

    def is_run(self) -> bool:
        """Say whether this directory looks like a run, even one whose run.json was lost.

        Raises UnreadableInput where a disk or a file server fails.
        """
        return _is_file(self.manifest) or _is_file(self.config)

    def processes(self) -> tuple[ProcessFolder, ...]:
        """Return every process folder, by host and name."""
        hosts = (host.name for host in _directories(self.root))
        return tuple(process for host in hosts for process in self.processes_of(host))

    def processes_of(self, host: str) -> tuple[ProcessFolder, ...]:
        """Return every process folder of one host, by name."""
        found = _directories(self.root / os.path.basename(host))
        processes = (ProcessFolder(path) for path in found)
        return tuple(process for process in processes if process.is_process())


@dataclass(frozen=True, slots=True)
class CaptureName:
    """What the file name of a capture says by itself."""

    step: int
    kind: str
    loop: int


def parse_capture_name(file_name: str) -> CaptureName | None:
    """Split `000123-fit-2.run_metadata.pb` into step, kind and work index."""
    match = _CAPTURE_NAME.match(file_name)
    if match is None:
        return None
    return CaptureName(int(match["step"]), match["kind"], int(match["work"]))


def is_capture(file_name: str) -> bool:
    """Say whether a file of this name is a whole capture."""
    suffixes = (RUN_METADATA_SUFFIX, XSPACE_SUFFIX, *KINETO_SUFFIXES)
    return file_name.endswith(suffixes) and not file_name.startswith(TEMPORARY_PREFIX)


def children(directory: Path) -> tuple[Path, ...]:
    """Return what is in a directory by name; nothing where it is absent or not ours to read.

    Raises UnreadableInput where a disk or a file server fails: what is in it is not known then.
    """
    try:
        return tuple(directory / name for name in sorted(os.listdir(directory)))
    except OSError as exc:
        _raise_failure(directory, exc)
        return ()


def _is_file(path: Path) -> bool:
    """Say whether a regular file is there. Raises UnreadableInput where nobody can tell."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError as exc:
        _raise_failure(path, exc)
        return False
    except ValueError:
        return False  # a name that no file can have


def _raise_failure(path: Path, error: OSError) -> None:
    if error.errno in FAILURES:
        problem = f"{path} cannot be read: {error.strerror or error}."
        raise UnreadableInput(problem, hint="Its disk or file server failed.") from error


def may_hold_processes(name: str) -> bool:
    """Say whether something of this name in a run directory may be a host's."""
    return not name.startswith(".") and name not in _NOT_HOSTS


def _plain(fingerprint: str) -> str:
    """Return a name that leads nowhere: what names a graph stands in the recording."""
    return fingerprint.replace("/", "_")


def _directories(parent: Path) -> list[Path]:
    found = (path for path in children(parent) if may_hold_processes(path.name))
    return [path for path in found if os.path.isdir(path)]
