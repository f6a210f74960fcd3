"""Put the front end together: one script, one style, the libraries, and the page around them.

Modules of `static/` are joined into one script, which the server and the one file share. For that
they keep to three rules, which a test holds: imports name what they import (`import { a } from
"./b.js";`, or `import A from "./a.json" with { type: "json" };`), exports are declarations
(`export function a`), and no two modules have a top-level name in common.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

STATIC = Path(__file__).parent / "static"
LIBRARIES = ("uplot.js", "echarts.js", "d3.js", "d3-flame-graph.js", "dagre.js")
STYLES = ("vendor/uplot.css", "vendor/d3-flame-graph.css")
_FIRST = "main.js"
# d3-flame-graph brings its style in an element, which the policy of the pages does not let in;
# STYLES has the same.
_ADDS_STYLE = ",document.head.appendChild(U);"

_IMPORT = re.compile(r'^import\s*\{[^}]*\}\s*from\s*"(\.[^"]+)";\n', re.MULTILINE)
_JSON_IMPORT = re.compile(
    r'^import (\w+) from "(\.[^"]+\.json)" with \{ type: "json" \};\n', re.MULTILINE
)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|let|class)\b)", re.MULTILINE)


def script() -> str:
    """Return all modules as one, each behind those that it imports."""
    parts: dict[Path, str] = {}
    _add((STATIC / _FIRST).resolve(), parts)
    return '"use strict";\n' + "\n".join(parts.values())


def style() -> str:
    """Return one style sheet."""
    ours = sorted(STATIC.glob("*.css"))
    sheets = [STATIC / name for name in STYLES] + ours
    return "\n".join(path.read_text(encoding="utf-8") for path in sheets)


def libraries() -> str:
    """Return the libraries as one script, their notices at the head of each."""
    folder = STATIC / "vendor"
    texts = ((folder / name).read_text(encoding="utf-8") for name in LIBRARIES)
    return "\n;".join(text.replace(_ADDS_STYLE, ";") for text in texts)


def _add(path: Path, parts: dict[Path, str]) -> None:
    text = path.read_text(encoding="utf-8")
    for name in _IMPORT.findall(text):
        needed = (path.parent / name).resolve()
        if needed not in parts:
            _add(needed, parts)
    text = _JSON_IMPORT.sub(lambda match: _constant(path, *match.groups()), text)
    parts[path] = _EXPORT.sub("", _IMPORT.sub("", text))


def _constant(module: Path, name: str, file: str) -> str:
    """Return the JSON that a module imports as a constant of the script."""
    value = json.loads((module.parent / file).read_text(encoding="utf-8"))
    return f"const {name} = {json.dumps(value, separators=(',', ':'), ensure_ascii=False)};\n"
