"""Write a fix into the source of a job, where it is one literal argument of one call."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Sequence
from pathlib import Path

from tfprobe.analysis.compare.trials import Verdict
from tfprobe.errors import Missing
from tfprobe.findings.fixes import ChosenFix
from tfprobe.findings.trials import FixOutcome

_CANNOT_BE_READ = Missing("its file cannot be read as Python")


def patch_of(outcomes: Sequence[FixOutcome], cwd: Path) -> str | Missing:
    """Return a unified diff with the arguments of all fixes that won.

    Missing with the reason of the first if none of them can be written so. Files are named as the
    job's processes saw them; names below `cwd` are relative to it.
    """
    texts: dict[Path, str] = {}
    reasons: list[str] = []
    for outcome in outcomes:
        if outcome.verdict is not Verdict.WON:
            continue
        for chosen in outcome.fixes:
            noted = outcome.applied.get(chosen.fix.id)
            found = _changed(chosen, noted.source if noted else "", texts)
            if isinstance(found, Missing):
                reasons.append(f"{chosen.text}: {found.reason}")
            else:
                texts.update(found)
    if not texts:
        return Missing(reasons[0] if reasons else "no fix won")
    return "".join(_diff(path, text, cwd) for path, text in sorted(texts.items()))


def with_argument(text: str, line: int, callee: str, keyword: str, value: str) -> str | Missing:
    """Return the source with `keyword=value` in the call of `callee` at a line.

    `callee` is the last part of its name, alternatives with | between. The argument is added, or
    replaces a literal.
    """
    calls = _calls(text, line, callee)
    if isinstance(calls, Missing):
        return calls
    if len(calls) != 1:
        return Missing(f"there is not one call of it at line {line}")
    (call,) = calls
    if any(one.arg is None for one in call.keywords):
        return Missing(f"the call at line {line} takes its arguments from elsewhere")
    given = next((one.value for one in call.keywords if one.arg == keyword), None)
    if given is None:
        changed = _inserted(text, call, f"{keyword}={value}")
    elif isinstance(given, ast.Constant):
        changed = _replaced(text, _offset(text, given, is_end=False), _offset(text, given), value)
    else:
        return Missing(f"{keyword} at line {line} is no literal")
    if not _has(changed, call, keyword, value):
        return Missing(f"the call at line {line} is written in a way that cannot be added to")
    return changed


def _calls(text: str, line: int, callee: str) -> list[ast.Call] | Missing:
    """Return the calls of a name that lie over a line."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return _CANNOT_BE_READ
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
        and _name(node) in callee.split("|")
    ]


def _has(text: str, before: ast.Call, keyword: str, value: str) -> bool:
    """Return whether the changed call is the one before with that argument, and nothing else."""
    calls = _calls(text, before.lineno, _name(before))
    if isinstance(calls, Missing):
        return False
    after = next((call for call in calls if call.col_offset == before.col_offset), None)
    if after is None or list(map(ast.dump, after.args)) != list(map(ast.dump, before.args)):
        return False
    others = [ast.dump(one) for one in before.keywords if one.arg != keyword]
    kept = [ast.dump(one) for one in after.keywords if one.arg != keyword]
    new = [ast.unparse(one.value) for one in after.keywords if one.arg == keyword]
    return others == kept and new == [value]


def _changed(chosen: ChosenFix, source: str, texts: dict[Path, str]) -> dict[Path, str] | Missing:
    if not chosen.argument:
        return Missing("it is no argument of a call")
    file, _, line = source.rpartition(":")
    path = Path(file)
    if not file or not line.isdigit():
        return Missing("nobody saw in which line it was applied")
    try:
        text = texts[path] if path in texts else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return _CANNOT_BE_READ
    changed = with_argument(text, int(line), *chosen.argument)
    return changed if isinstance(changed, Missing) else {path: changed}


def _name(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _inserted(text: str, call: ast.Call, argument: str) -> str:
    """Put an argument before the closing bracket, behind a comma where one is needed."""
    end = _offset(text, call) - 1
    arguments: list[ast.expr] = [*call.args, *(one.value for one in call.keywords)]
    if not arguments:
        return _replaced(text, end, end, argument)
    last = max(_offset(text, one) for one in arguments)
    # A comma and a comment may stand between the last argument and the bracket.
    has_comma = text[last:end].split("#", 1)[0].strip().startswith(",")
    return (
        _replaced(text, last, last, f", {argument}")
        if not has_comma
        else _replaced(text, text.index(",", last) + 1, text.index(",", last) + 1, f" {argument},")
    )


def _offset(text: str, node: ast.expr, *, is_end: bool = True) -> int:
    """Return where a node begins or ends in the text; ast counts columns in bytes of UTF-8."""
    line = node.end_lineno if is_end else node.lineno
    column = node.end_col_offset if is_end else node.col_offset
    assert line is not None
    assert column is not None
    lines = text.splitlines(keepends=True)
    before = sum(map(len, lines[: line - 1]))
    return before + len(lines[line - 1].encode()[:column].decode())


def _replaced(text: str, begin: int, end: int, by: str) -> str:
    return text[:begin] + by + text[end:]


def _diff(path: Path, changed: str, cwd: Path) -> str:
    name = path.relative_to(cwd) if path.is_relative_to(cwd) else path
    lines = difflib.unified_diff(
        path.read_text(encoding="utf-8").splitlines(keepends=True),
        changed.splitlines(keepends=True),
        f"a/{name}",
        f"b/{name}",
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
