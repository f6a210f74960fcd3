"""The front end is plain modules that can be joined, and never makes HTML of what it shows."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.web import bundle, vendor

OURS = sorted(path for path in bundle.STATIC.rglob("*.js") if vendor.FOLDER not in path.parents)
SHEETS = sorted(bundle.STATIC.glob("*.css"))
TOP_LEVEL = re.compile(
    r"^(?:export )?(?:async )?(?:function\*?|const|let|var|class) +(\w+)", re.MULTILINE
)
DESTRUCTURED = re.compile(r"^(?:export )?(?:const|let|var) *[\[{]", re.MULTILINE)
AS_HTML = (
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "createContextualFragment",
    "DOMParser",
    "setHTMLUnsafe",
    "srcdoc",
    "eval(",
    "new Function",
    "javascript:",
    ".html(",
)
ELSEWHERE = re.compile(r"(?:https?|wss?):?//[\w.]+|[\"'`]//\w")
NAMESPACE = "http://www.w3.org/"


def _found_in(texts: dict[str, str], wanted: re.Pattern[str]) -> dict[str, list[str]]:
    found = {name: wanted.findall(text) for name, text in texts.items()}
    return {name: each for name, each in found.items() if each}


def _texts(paths: list[Path]) -> dict[str, str]:
    return {str(path.relative_to(bundle.STATIC)): path.read_text("utf-8") for path in paths}


def test_no_two_modules_share_a_name():
    """They are joined into one script, where each name has one meaning."""
    names = Counter(name for text in _texts(OURS).values() for name in TOP_LEVEL.findall(text))

    assert {name for name, times in names.items() if times > 1} == set()


def test_declarations_name_what_they_declare():
    """A pattern at the top of a module would hide its names from the check above."""
    assert _found_in(_texts(OURS), DESTRUCTURED) == {}


def test_imports_and_exports_have_the_one_form_that_can_be_joined():
    """Of the joined script nothing is left that only a module has."""
    left = re.compile(r"^\s*(?:import|export)\b(?!:).*", re.MULTILINE)

    assert _found_in({"page.js": bundle.script()}, left) == {}


def test_imports_name_what_there_is():
    """What is joined finds its names anyway, so a wrong import would go unseen."""
    texts = {path.resolve(): path.read_text("utf-8") for path in OURS}
    imports = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"(\.[^"]+)";\n', re.MULTILINE)
    wrong = [
        (path.name, name.strip(), source)
        for path, text in texts.items()
        for names, source in imports.findall(text)
        for name in names.split(",")
        if name.strip()
        and not re.search(
            rf"^export (?:async )?(?:function\*?|const|let|class) +{name.strip()}\b",
            texts.get((path.parent / source).resolve(), ""),
            re.MULTILINE,
        )
    ]

    assert wrong == []


def test_the_script_carries_the_json_that_its_modules_import():
    """Pages ask for one script, and the HTML file for nothing."""
    rules = bundle.STATIC.parents[1] / "report" / "format" / "number_rules.json"
    (carried,) = re.findall(r"^const NUMBER_RULES = (.*);$", bundle.script(), re.MULTILINE)

    assert json.loads(carried) == json.loads(rules.read_text("utf-8"))


def test_every_page_is_part_of_the_script():
    """One that neither main nor another page imports is never sent."""
    pages = sorted((bundle.STATIC / "pages").glob("*.js"))
    texts = [(bundle.STATIC / "main.js").read_text("utf-8"), *(p.read_text("utf-8") for p in pages)]
    imported = {
        name for text in texts for name in re.findall(r'from "\./(?:pages/)?([^"/]+\.js)"', text)
    }

    assert {path.name for path in pages} - imported == set()


def test_text_never_becomes_html():
    """Names of ops, scopes and files are whatever somebody wrote into a graph."""
    found = _found_in(_texts(OURS), re.compile("|".join(map(re.escape, AS_HTML))))

    assert found == {}


def test_markup_has_no_style_and_no_handler():
    """The policy of the pages forbids both; by script they are set as properties."""
    page = (bundle.STATIC / "index.html").read_text("utf-8")

    assert re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page) == []
    assert _found_in(_texts(OURS), re.compile(r"setAttribute\(\s*[\"']style")) == {}


def test_nothing_of_ours_names_another_host():
    """No request leaves the machine; names of XML's dialects look like addresses, and are none."""
    pages = [*OURS, *SHEETS, *bundle.STATIC.glob("*.html")]
    found = _found_in(_texts(pages), re.compile(r"(?:https?|wss?)://[^\s\"'`)]+|url\([^)]*\)"))

    strange = [each for urls in found.values() for each in urls if not each.startswith(NAMESPACE)]
    assert strange == []


def test_colours_are_named_in_one_place():
    """So that light, dark and contrast are decided once."""
    others = [path for path in [*OURS, *SHEETS] if path.name not in ("base.css", "colours.js")]
    by_value = re.compile(r"#[0-9a-fA-F]{3,8}\b(?=[;\"'`, )])|\brgba?\(\d|\bhsla?\(\d")

    assert _found_in(_texts(others), by_value) == {}


def test_every_part_of_a_step_has_a_colour():
    """The same one on every page."""
    base = (bundle.STATIC / "base.css").read_text("utf-8")

    assert [part.value for part in Part if f"--part-{part.value}:" not in base] == []


def test_a_style_uses_only_colours_that_there_are():
    """A variable that is misspelt is no error to a browser, and no colour."""
    style = bundle.style()
    known = set(re.findall(r"(--[\w-]+)\s*:", style))

    assert set(re.findall(r"var\((--[\w-]+)", style)) - known == set()


def test_libraries_have_their_notices_and_nothing_else_is_there():
    """Whoever gets our package gets the licence of each library with it."""
    libraries = json.loads(vendor.LIST.read_text("utf-8"))
    listed = {file for library in libraries for file in library["files"]}

    there = {path.name for path in vendor.FOLDER.iterdir()} - {vendor.LIST.name}
    without = [
        library["name"]
        for library in libraries
        if not any(file.endswith(".LICENSE") for file in library["files"])
    ]

    assert (there, without) == (listed, [])


def test_libraries_are_as_they_were_fetched():
    """Nobody edits them here: what they should not do is kept from them where they are joined."""
    libraries = json.loads(vendor.LIST.read_text("utf-8"))
    kept = {file: digest for library in libraries for file, digest in library["digests"].items()}

    now = {file: vendor.digest((vendor.FOLDER / file).read_bytes()) for file in kept}

    assert (now, set(kept)) == (kept, {file for each in libraries for file in each["files"]})


def test_all_that_is_loaded_stands_in_the_libraries():
    """`libraries.js` is made of files that are there."""
    assert all(name in {path.name for path in vendor.FOLDER.iterdir()} for name in bundle.LIBRARIES)
    assert "d3-flamegraph" in bundle.libraries() or "d3-flame-graph" in bundle.libraries()
