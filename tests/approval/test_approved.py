"""Every reading command says of fifteen runs what was approved, byte by byte.

`pytest tests/approval --approve` writes the files anew; what changed is then read as a user would.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.approval.runs import RUNS, place
from tests.support.machines import machine
from tfprobe.cli.main import main
from tfprobe.runs import liveness

APPROVED = Path(__file__).parent / "approved"
COMMANDS = (
    "ls",
    "ls --trend",
    "report",
    "advise",
    "steps",
    "breakdown",
    "input",
    "op",
    "scope",
    "graph",
    "code",
    "memory",
    "transfers",
    "ranks",
    "tiers",
    "stacks",
)
FORMS = {"80": [], "120": [], "200": [], "json": ["--json"]}
EXPORTS = {
    "chrome": "trace.json",
    "step-timeline": "step.json",
    "pprof": "run.pprof",
    "speedscope": "run.speedscope.json",
    "profile-proto": "run.profile",
}
# A before and an after: other programs, one program with a capture cut short, and one with itself.
PAIRS = {
    "keras2_keras3": ("keras2", "keras3"),
    "session_damaged": ("session", "damaged"),
    "ranks_ranks": ("ranks", "ranks"),
}
# Of longer answers nobody would read what changed.
MOST_CHARACTERS = 200_000
# The last digits of logarithms differ from one processor to another.
LONG_FRACTION = re.compile(r"-?\d+\.\d{11,}(?:e[-+]?\d+)?|-?\d\.\d+e[-+]?\d+")
# It is mostly that of the program that draws the pages.
SIZE_OF_PAGES = re.compile(r"[\d.]+ [KM]iB; open it")
# A day after the recordings.
NOW_NS = 1_795_530_000_000_000_000

Say = Callable[..., str]
Approve = Callable[[str, str], None]


@pytest.fixture
def runs() -> Iterator[Path]:
    """A directory whose path is as long as any other of them: lines are broken by it."""
    with tempfile.TemporaryDirectory(prefix="approved_", dir="/tmp") as directory:
        yield Path(directory)


@pytest.fixture
def say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], runs: Path
) -> Say:
    """Run a command and return what it says, beside its exit status."""
    here = machine(tmp_path, p4711=1234)
    monkeypatch.setattr(liveness, "this_machine", lambda: here)
    monkeypatch.setattr(time, "time_ns", lambda: NOW_NS)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def ask(*words: str, columns: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        status = main([*words, "-o", str(runs)])
        captured = capsys.readouterr()
        beside = f"\n[stderr]\n{captured.err}" if captured.err else ""
        answer = _rounded(captured.out).replace(str(runs), "RUNS")
        if len(answer) > MOST_CHARACTERS:
            answer = f"{len(answer)} characters, {_digest(answer.encode())}\n"
        said = f"$ tfprobe {' '.join(words)}\n{answer}{beside}[exit {status}]\n\n"
        return said.replace(str(runs), "RUNS")

    return ask


@pytest.fixture
def approve(request: pytest.FixtureRequest) -> Approve:
    """Compare what is said with what was approved; `--approve` approves it."""

    def compare(name: str, said: str) -> None:
        path = APPROVED / name
        if request.config.getoption("--approve"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(said)
        assert said == path.read_text()

    return compare


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", RUNS)
def test_what_is_said_is_what_was_approved(
    name: str, form: str, runs: Path, say: Say, approve: Approve
) -> None:
    """With its exit status, and what it says beside its answer."""
    place(name, runs)
    columns = int(form) if form.isdigit() else 80

    said = [say(*words.split(), *FORMS[form], columns=columns) for words in COMMANDS]

    approve(f"{name}/{form}.txt", "".join(said))


@pytest.mark.parametrize("name", RUNS)
def test_written_files_are_those_approved(
    name: str, runs: Path, tmp_path: Path, say: Say, approve: Approve
) -> None:
    """Markdown as it is; of each answer in the HTML file and each file for another program, what it
    hashes to."""
    place(name, runs)
    markdown, pages = tmp_path / "report.md", tmp_path / "report.html"

    said = say("report", "--md", str(markdown)) + _text(markdown)
    shown = SIZE_OF_PAGES.sub("SIZE; open it", say("report", "--html", str(pages)))
    said += shown + _answers(pages, str(runs))
    for kind, file in EXPORTS.items():
        written = tmp_path / file
        said += say("export", "--to", kind, "-f", str(written)) + _digest_of(written)

    approve(f"{name}/files.txt", said.replace(str(tmp_path), "FILES").replace(str(runs), "RUNS"))


@pytest.mark.parametrize("pair", PAIRS)
def test_differences_are_those_approved(
    pair: str, runs: Path, tmp_path: Path, say: Say, approve: Approve
) -> None:
    """In text, as a document, and in Markdown."""
    before, after = (
        _placed(name, runs / side) for name, side in zip(PAIRS[pair], "ab", strict=True)
    )
    markdown = tmp_path / "diff.md"

    said = "".join(say("diff", before, after, columns=columns) for columns in (80, 120, 200))
    said += say("diff", before, after, "--json")
    said += say("diff", before, after, "--md", str(markdown)) + _text(markdown)

    approve(f"diff/{pair}.txt", said.replace(str(tmp_path), "FILES"))


def _placed(name: str, runs: Path) -> str:
    runs.mkdir()
    place(name, runs)
    (run,) = runs.iterdir()
    return str(run)


def _text(path: Path) -> str:
    return path.read_text() + "\n" if path.exists() else "no file\n\n"


def _rounded(text: str) -> str:
    return LONG_FRACTION.sub(lambda match: f"{float(match[0]):.9g}", text)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _digest_of(path: Path) -> str:
    return f"{_digest(path.read_bytes())}\n\n" if path.exists() else "no file\n\n"


def _answers(path: Path, runs: str) -> str:
    """What each question of the pages is answered, without the program that draws them."""
    if not path.exists():
        return "no file\n\n"
    match = re.search(r'id="recording">(.*?)</script>', path.read_text(), re.DOTALL)
    assert match is not None
    recording = json.loads(match[1])
    documents = [
        _digest(_rounded(_plain(document)).replace(runs, "RUNS").encode())
        for document in recording["documents"]
    ]
    lines = [f"{documents[at]} {name}\n" for name, at in recording["answers"].items()]
    lines += [f"{sentence} {name}\n" for name, sentence in recording["troubles"].items()]
    return "".join(lines) + "\n"


def _plain(document: object) -> str:
    """Return a document of the pages as JSON; big ones are packed."""
    if isinstance(document, str):
        return zlib.decompress(base64.b64decode(document)).decode()
    return json.dumps(document, separators=(",", ":"))
