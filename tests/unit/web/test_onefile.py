"""The one file: nothing in it ends its elements, nothing in it asks anybody, and it stays small."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import shutil
import subprocess
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.support.op_runs import Ran, RunOfOps
from tests.support.rundir import (
    LAYOUT,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)
from tfprobe.errors import NoAnswer
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine
from tfprobe.web import bundle, html_export
from tfprobe.web.answers import ANSWERS
from tfprobe.web.html_export import FURTHER, questions
from tfprobe.web.opened import OpenRun

HOSTILE = "</script><script>alert(1)</script><!-- \u2028\u2029 & \ud800 ' \" \u202e"


class Read(HTMLParser):
    """What a browser finds: the text of each element that holds text alone, and all addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[int, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}", {}))

    def handle_data(self, data: str) -> None:
        at = len(self.elements) - 1
        self.texts[at] = self.texts.get(at, "") + data

    def of(self, tag: str, **attributes: str) -> list[str]:
        return [
            self.texts.get(at, "")
            for at, (name, given) in enumerate(self.elements)
            if name == tag and attributes.items() <= given.items()
        ]

    def recording(self) -> dict[str, Any]:
        (text,) = self.of("script", id="recording")
        found: dict[str, Any] = json.loads(text)
        return found

    def answer(self, key: str) -> Any:
        recording = self.recording()
        document = recording["documents"][recording["answers"][key]]
        if isinstance(document, str):
            return json.loads(zlib.decompress(base64.b64decode(document)))
        return document


@pytest.fixture
def run(tmp_path: Path) -> OpenRun:
    loop = WrittenLoop(steps=regular_steps(3), name=HOSTILE.replace("\ud800", ""))
    process = WrittenProcess(loops=[loop], header={LAYOUT.STATE_WORD: LAYOUT.FINISHED})
    return OpenRun(RunFolder(write_run(tmp_path / "r1", [process])), this_machine())


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch):
    """Let these be the questions, each with its answer."""

    def choose(answers: dict[str, Any]):
        monkeypatch.setattr(
            html_export, "questions", lambda _: [("page", {"at": at}) for at in answers]
        )

        def ask(run, name, question):
            found = answers[question.text("at")]
            if isinstance(found, Exception):
                raise found
            return found

        return ask

    return choose


def test_no_name_ends_the_element_that_it_stands_in(run, only):
    """A name of an op is text, whatever it holds, and comes out as it went in."""
    ask = only({"a": {"name": HOSTILE}, "b": {"name": HOSTILE * 1_000}, "c": NoAnswer(HOSTILE)})

    found = Read(html_export.page(run, ask=ask))

    assert [tag for tag, _ in found.elements].count("script") == 3
    assert found.answer("run/r1/page?at=a") == {"name": HOSTILE}
    assert found.answer("run/r1/page?at=b") == {"name": HOSTILE * 1_000}
    assert found.recording()["troubles"] == {"run/r1/page?at=c": HOSTILE}


def test_a_run_with_a_hostile_id_is_text_too(tmp_path):
    """The name of a folder stands in the title and in the recording."""
    name = "<script>&quot;'\u2028~ é.."
    root = write_run(tmp_path / name)

    found = Read(html_export.page(OpenRun(RunFolder(root), this_machine())))

    assert found.of("title") == [f"{name} · tfprobe"]
    assert found.recording()["run"] == name
    assert "run/%3Cscript%3E%26quot%3B'%E2%80%A8~%20%C3%A9../overview" in {
        **found.recording()["answers"],
        **found.recording()["troubles"],
    }


def test_a_directory_whose_name_is_no_text_is_written(tmp_path):
    """File systems take any bytes for a name."""
    root = tmp_path / "run"
    write_run(root, [WrittenProcess(loops=[WrittenLoop(steps=regular_steps(3))])])
    odd = root.rename(tmp_path / "half \udcff")

    found = html_export.page(OpenRun(RunFolder(odd), this_machine()))

    assert "<title>half ? · tfprobe</title>" in found
    assert found.encode()


def test_the_policy_lets_in_its_own_scripts_and_style_alone(run):
    """Each by its digest; nothing inline, nothing from elsewhere."""
    found = Read(html_export.page(run))

    (policy,) = [given["content"] for tag, given in found.elements if "http-equiv" in given]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    _, *scripts = found.of("script")  # the first is the recording, which does not run
    assert rules["default-src"] == "'none'"
    assert rules["script-src"].split() == [_digest(text) for text in scripts]
    assert rules["style-src"].split() == [_digest(text) for text in found.of("style")]
    assert not set(rules).intersection({"connect-src", "frame-src", "font-src"})
    assert "unsafe" not in policy


def test_nothing_in_it_has_an_address(run):
    """No element fetches: no `src`, and the one `href` is the icon itself."""
    found = Read(html_export.page(run))

    addresses = [
        value
        for _, given in found.elements
        for name, value in given.items()
        if name in ("src", "href", "srcset", "action", "data", "poster")
    ]
    styles = found.of("style")[0]
    assert [address.partition(",")[0] for address in addresses] == ["data:image/svg+xml"]
    assert re.findall(r"url\(|@import", styles) == []


def test_the_script_ends_where_it_should(run):
    """A parser of HTML hands on the scripts as they were put together."""
    found = Read(html_export.page(run))

    assert found.of("script", type="module") == [bundle.script()]
    assert bundle.libraries() in found.of("script")


def test_libraries_add_no_style_of_their_own():
    """The policy would forbid it, and say so on the console."""
    assert "head.appendChild" not in bundle.libraries()


def test_the_same_run_gives_the_same_file(run, tmp_path):
    """Byte for byte, also when another process reads it."""
    again = OpenRun(RunFolder(tmp_path / "r1"), this_machine())

    assert html_export.page(run) == html_export.page(again)


def test_what_has_no_room_is_left_out_and_smaller_ones_stay(run, only):
    """A file that can be sent, with as much in it as goes."""
    noise = random.Random(1)
    big = {"noise": [noise.random() for _ in range(20_000)]}
    ask = only({"first": {"is": 1}, "big": big, "big too": {**big, "x": 1}, "last": {"is": 2}})
    whole = len(html_export.page(run, ask=ask).encode())

    text = html_export.page(run, ask=ask, most_bytes=whole - 1)

    assert len(text.encode()) < whole
    assert set(Read(text).recording()["answers"]) == {
        "run/r1/page?at=first",
        "run/r1/page?at=big",
        "run/r1/page?at=last",
    }


def test_the_limit_holds_to_the_byte(run, only):
    """However many answers there are, and however small."""
    ask = only({f"{at:x}": {"is": f"<{at}>"} for at in range(500)})
    whole = len(html_export.page(run, ask=ask).encode())

    for cut in (1, 99, 9_999):
        size = len(html_export.page(run, ask=ask, most_bytes=whole - cut).encode())
        assert (cut, whole - cut - 99 < size <= whole - cut) == (cut, True)


def test_answers_that_are_alike_stand_there_once(run, only):
    """A page asked for the loop that it shows anyway costs its name alone."""
    ask = only({"": {"rows": ["x" * 9_000]}, "0": {"rows": ["x" * 9_000]}})

    recording = Read(html_export.page(run, ask=ask)).recording()

    assert recording["answers"] == {"run/r1/page": 0, "run/r1/page?at=0": 0}
    assert len(recording["documents"]) == 1


def test_every_page_is_asked_for_first(run):
    """Whatever else is in the file, each page opens."""
    names = [name for name, _ in questions(run)]

    assert sorted(names[: len(ANSWERS)]) == sorted(ANSWERS)
    assert names[0] == "overview"
    assert set(FURTHER) <= set(ANSWERS)


def test_the_graph_is_there_where_the_dearest_ops_are():
    """The page of ops leads into their scopes, however deep."""
    ran = RunOfOps(Ran("a/b/c/x", us=90), Ran("d/y"), Ran("z"))

    asked = [arguments for name, arguments in questions(ran) if name == "graph"]

    assert {"at": "a/b/c"} in asked
    assert {"at": "d"} in asked


@pytest.mark.skipif(shutil.which("node") is None, reason="asks the script itself, by node")
def test_questions_are_named_as_the_script_names_them(tmp_path):
    """Both sides write the same key for arguments of any characters."""
    arguments = {"b": "a b+c&d=e~*-._!'()%", "a": 3, "é": "ü\u202e😀", "none": ""}
    (tmp_path / "data.mjs").write_text((bundle.STATIC / "parts" / "data.js").read_text())
    (tmp_path / "ask.mjs").write_text(
        'globalThis.document = { getElementById: () => null, readyState: "complete" };\n'
        "globalThis.addEventListener = () => {};\n"
        "const answer = { ok: true, json: async () => 1 };\n"
        "globalThis.fetch = async (address) => (console.log(address), answer);\n"
        'const { ask } = await import("./data.mjs");\n'
        "const [run, args] = JSON.parse(process.argv[2]);\n"
        "await ask(`run/${encodeURIComponent(run)}/ops`, args);\n"
    )
    run = "r/1 ~é!'()*"
    command = ["node", tmp_path / "ask.mjs", json.dumps([run, arguments])]

    named = subprocess.run(command, capture_output=True, text=True, check=True)

    assert named.stdout.strip() == f"/api/{html_export.key_of(run, 'ops', arguments)}"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
