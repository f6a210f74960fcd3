"""Put a run's pages into one file, with the answers inlined. It asks nothing of anybody."""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

from tfprobe.analysis.core.source_lines import BYS
from tfprobe.analysis.jobs.rank_steps import MEASURES
from tfprobe.analysis.memory.memory_peak import GROUP_KEYS
from tfprobe.errors import NoAnswer, UnreadableInput
from tfprobe.web import bundle
from tfprobe.web.answers import ANSWERS, answer
from tfprobe.web.loop_costs import METRICS
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages import trials
from tfprobe.web.pages.timeline import step_timeline
from tfprobe.web.params import Params

# What a mail server takes, and a browser opens without a pause.
MOST_BYTES = 15_000_000
# Below this, packing saves less than it costs to read.
_LEAST_PACKED_BYTES = 16_384
# Characters that mean something to a parser of HTML; JSON reads them all the same.
_ESCAPES = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&"})
# JavaScript leaves these as they are, where Python's `quote` leaves fewer, and `~`.
_PLAIN_IN_NAMES = "!~*'()"
_PLAIN_IN_ARGUMENTS = "*"
_ICON = re.compile(r'<link rel="icon" href="data:[^"]*">')
_END_OF_SCRIPT = re.compile(r"</script|<!--", re.IGNORECASE)

# Any: JSON values, as each page's module describes them.
Answer = Callable[[OpenRun, str, Params], dict[str, Any]]


@dataclass(slots=True)
class _Recording:
    """What `static/parts/data.js` finds in the file. Documents that are alike stand there once."""

    run: str
    left_bytes: int
    answers: dict[str, int] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    documents: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, document: Mapping[str, Any]) -> None:
        """Add an answer if there is room for it."""
        text = _packed(document)
        place = self.documents.get(text, len(self.documents))
        new = 0 if text in self.documents else len(text) + 1
        if self._takes(len(_json({name: place})) - 1 + new):
            self.answers[name] = self.documents[text] = place

    def add_trouble(self, name: str, sentence: str) -> None:
        """Add why there is no answer if there is room for it."""
        if self._takes(len(_json({name: sentence})) - 1):
            self.troubles[name] = sentence

    def text(self) -> str:
        """Return all as JSON that can stand in HTML."""
        head = _json({"run": self.run, "answers": self.answers, "troubles": self.troubles})
        return f'{head[:-1]},"documents":[{",".join(self.documents)}]}}'

    def _takes(self, cost_bytes: int) -> bool:
        if cost_bytes > self.left_bytes:
            return False
        self.left_bytes -= cost_bytes
        return True


def page(
    run: OpenRun,
    *,
    most_bytes: int = MOST_BYTES,
    ask: Answer = answer,
    watch: Callable[[int, int], None] = lambda _done, _all: None,
) -> str:
    """Return the pages of a run as one HTML file of at most `most_bytes`, all ASCII or nearly.

    Answers come in by their importance; one that has no room is left out, and its page says so.
    `watch(done, all)` counts the answers. The same run gives the same text.
    """
    # The name of a directory may be no text.
    run_name = run.folder.id.encode("utf-8", "replace").decode()
    shell = _shell(run_name)
    room = most_bytes - len(shell.encode()) - len(_json(run_name)) - 64
    recording = _Recording(run_name, room)
    requests = list(questions(run))
    for at, (name, arguments) in enumerate(requests):
        watch(at, len(requests))
        key = key_of(run_name, name, arguments)
        given = {each: str(value) for each, value in arguments.items()}
        try:
            recording.add(key, ask(run, name, Params(given)))
        except (NoAnswer, UnreadableInput) as exc:
            recording.add_trouble(key, str(exc))
    return shell.replace(_PLACE, recording.text())


def key_of(run: str, name: str, arguments: Arguments) -> str:
    """Return what `ask` of `static/parts/data.js` calls a question."""
    path = f"run/{quote(run, safe=_PLAIN_IN_NAMES)}/{name}"
    given = sorted((each, str(value)) for each, value in arguments.items() if value != "")
    query = urlencode(given, safe=_PLAIN_IN_ARGUMENTS).replace("~", "%7E")
    return f"{path}?{query}" if query else path


_NO_SCRIPT = "tfprobe draws its pages by JavaScript. On a terminal, `tfprobe report` says the same."
# Stands where the recording goes; no run has such a name, and no library holds it.
_PLACE = "<!-- recording -->"


def _shell(run: str) -> str:
    """Return the page around the recording."""
    script, style = _inline(bundle.script()), _inline(bundle.style())
    libraries = _inline(bundle.libraries())
    if _END_OF_SCRIPT.search(script + libraries) or "</style" in style.lower():
        raise AssertionError("A script or the style of the pages ends its own element.")
    (icon,) = _ICON.findall((bundle.STATIC / "index.html").read_text(encoding="utf-8"))
    policy = (
        f"default-src 'none'; script-src {_digest(libraries)} {_digest(script)}; "
        f"style-src {_digest(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{html.escape(run)} · tfprobe</title>
{icon}
<style>{style}</style>
</head>
<body>
<noscript>{_NO_SCRIPT}</noscript>
<script type="application/json" id="recording">{_PLACE}</script>
<script>{libraries}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def _inline(text: str) -> str:
    """Return a text as a parser of HTML hands it on, which is what digests are made of."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(value: object) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def _packed(document: Mapping[str, Any]) -> str:
    """Return a document as JSON; where it is big, as a string of base64 of its deflated JSON."""
    plain = _json(document)
    if len(plain) < _LEAST_PACKED_BYTES:
        return plain
    return f'"{base64.b64encode(zlib.compress(plain.encode("ascii"), 9)).decode()}"'


# The arguments of a question, as its page sends them: without those that are its defaults.
Arguments: TypeAlias = Mapping[str, str | int]
Further: TypeAlias = Callable[[OpenRun], Iterable[Arguments]]

# What a reader opens first; the other pages follow as they are sorted.
FIRST = ("overview", "header", "shares", "findings", "steps", "ops", "scopes", "code")
# Beyond these nobody looks who has no server; and each takes its time to be made.
MOST_OF_A_PAGE = 150
_MOST_LOOPS = 8
_MOST_ROWS = 20
_MOST_TYPES = 100
# A timeline takes longer to be made than all else, and more room.
_MOST_TIMELINES = 24
_MOST_OF_RANKS = 4
_METRICS = [{"metric": metric} for metric in METRICS]


def questions(run: OpenRun) -> Iterator[tuple[str, Arguments]]:
    """Yield the first request of each page, then by turns the further ones."""
    pages = [name for name in FIRST if name in ANSWERS]
    pages += sorted(set(ANSWERS).difference(pages))
    for name in pages:
        yield name, {}
    further = [_named(name, FURTHER[name](run)) for name in pages if name in FURTHER]
    for row in itertools.zip_longest(*further):
        yield from (request for request in row if request is not None)


def _named(name: str, found: Iterable[Arguments]) -> Iterator[tuple[str, Arguments]]:
    return ((name, arguments) for arguments in itertools.islice(found, MOST_OF_A_PAGE))


def _looks(*ways: Arguments) -> Further:
    """Look at a page in these ways: the loop that it shows first, then others by their time."""

    def look(run: OpenRun) -> Iterator[Arguments]:
        yield from ways
        for loop in _loops(run):
            yield {"work": loop}
        for loop in _loops(run):
            yield from ({"work": loop, **way} for way in ways)

    return look


def _loops(run: OpenRun) -> Sequence[int]:
    return [run.place(loop) for loop in run.loops()[:_MOST_LOOPS]]


def _graph(run: OpenRun) -> Iterator[Arguments]:
    """Enter the costliest scopes, where the costliest ops are, and open the costliest scope."""
    yield from _looks()(run)
    inside = _entered(run, "")
    nodes = _answer(run, "ops", {"by": "name"}).get("rows", [])[:_MOST_ROWS]
    around = [node["scope"] for node in nodes if node["scope"]]
    within = [each for path in inside[:1] for each in _entered(run, path)]
    yield from ({"at": path} for path in dict.fromkeys([*inside, *around, *within]))


def _entered(run: OpenRun, at: str) -> list[str]:
    groups = _answer(run, "graph", {"at": at}).get("groups", [])
    paths = [group["path"] for group in groups if group["kind"] == "scope" and group["path"]]
    return paths[:_MOST_ROWS]


def _memory(run: OpenRun) -> Iterator[Arguments]:
    yield from _looks(*({"by": key} for key in GROUP_KEYS))(run)
    for allocator in _answer(run, "memory").get("allocators", [])[:_MOST_ROWS]:
        yield {"at": allocator["at"]}


def _ops(run: OpenRun) -> Iterator[Arguments]:
    document = _answer(run, "ops")
    yield {"by": "name"}
    yield from ({"device": at} for at, _ in enumerate(document.get("devices", [])[:_MOST_ROWS]))
    for row in document.get("rows", [])[:_MOST_TYPES]:
        yield {"by": "name", "type": row["type"]}
    yield from _looks({"by": "name"})(run)


def _source(run: OpenRun) -> Iterator[Arguments]:
    """Show each file at its costliest line."""
    files = _answer(run, "code").get("files", [])[:_MOST_ROWS]
    yield from ({"file": at} for at, _ in enumerate(files) if at)
    yield from _looks()(run)


def _stacks(run: OpenRun) -> Iterator[Arguments]:
    """Show each process that was sampled."""
    count = len(_answer(run, "stacks").get("processes", []))
    yield from ({"process": at} for at in range(1, min(count, _MOST_ROWS)))


def _step(run: OpenRun) -> Iterator[Arguments]:
    """Pick the steps that stand out and those that were sampled, of each loop."""
    for loop in _loops(run):
        document = _answer(run, "steps", {"work": loop})
        longest = [
            slice_row["step"]
            for what in ("slow_steps", "long_gaps")
            for slice_row in document.get(what, {}).get("longest", [])[:_MOST_ROWS]
        ]
        sampled = document.get("sampled_steps", [])[: -_MOST_ROWS - 1 : -1]
        for number in dict.fromkeys([*sampled, *longest]):
            yield {"work": loop, "step": number}


def _timeline(run: OpenRun) -> Iterator[Arguments]:
    yield from itertools.islice(step_timeline.further(run), _MOST_TIMELINES)


def _timeline_ranks(run: OpenRun) -> Iterator[Arguments]:
    yield from itertools.islice(step_timeline.further(run), _MOST_OF_RANKS)


def _answer(run: OpenRun, name: str, arguments: Arguments | None = None) -> dict[str, Any]:
    """Return a document, empty where there is none. Any: JSON, see docs/web.md."""
    given = {each: str(value) for each, value in (arguments or {}).items()}
    try:
        return answer(run, name, Params(given))
    except (NoAnswer, UnreadableInput):
        return {}


# What a page requests after its first look, the most important first, sorted by page.
FURTHER: Mapping[str, Further] = {
    "code": _looks({"frames": "job"}, *_METRICS),
    "graph": _graph,
    "input": _looks(),
    "memory": _memory,
    "ops": _ops,
    "parts": _looks(),
    "processes": _looks(*({"measure": measure} for measure in MEASURES)),
    "scopes": _looks(
        {"by": "layer"}, *_METRICS, *({"by": "layer", **metric} for metric in _METRICS)
    ),
    "source": _source,
    "stacks": _stacks,
    "step": _step,
    "steps": _looks(),
    "timeline": _timeline,
    "timeline-ranks": _timeline_ranks,
    "timeline-slice": step_timeline.further_slices,
    "transfers": _looks(*({"by": grouping} for grouping in BYS)),
    "trials": trials.further,
}
