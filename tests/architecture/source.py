"""Read the imports and calls of our source as trees; nothing is imported or run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tfprobe"
HOOKS = ROOT / "sitecustomize_hooks"


def modules(folder: Path) -> list[Path]:
    """Every Python file below a folder."""
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def tree(path: Path) -> ast.Module:
    """Parse one file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported_names(node: ast.AST, package: str) -> Iterator[str]:
    """Give the dotted name of each import in `node`, relative ones resolved against `package`."""
    for child in ast.walk(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from _from(child, package)


def dotted(path: Path, root: Path) -> str:
    """Give the dotted name of the package a file belongs to."""
    return ".".join(path.relative_to(root).parent.parts)


def _from(node: ast.ImportFrom, package: str) -> Iterator[str]:
    base = node.module or ""
    if node.level:
        parents = package.split(".")
        kept = parents[: len(parents) - node.level + 1]
        base = ".".join([*kept, *([node.module] if node.module else [])])
    yield from (f"{base}.{alias.name}" for alias in node.names)
