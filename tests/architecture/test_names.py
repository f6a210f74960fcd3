"""One name for one thing: classes, records, and the words of identifiers."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from pathlib import Path

from tests.architecture.source import PACKAGE, modules, tree

# Words that stood for several ideas each. The agent is free of them, too (test_agent.py).
COINED = frozenset(
    {"asked", "beside", "crew", "dearest", "door", "hearing", "heard", "held", "told"}
)
# Terms of the field that have one of these words: a lock is held.
TERMS = frozenset({"gil_held"})
# Records of two rooms with the same fields and different meanings, and why each stays.
ALIKE = {
    # An op that ran and one whose shapes are sought: the second may lack what the first has.
    frozenset({"BoundTensors", "OpCall"}),
    # One interval, and many as columns.
    frozenset({"PhaseIntervals", "Segment"}),
    # What was claimed, and what is left of it when the claims are ordered.
    frozenset({"ChargedIntervals", "Claims"}),
    # Points of a chart that a page draws, and samples that are weighted by their time.
    frozenset({"Measured", "Samples"}),
    # The cost of any op, and the part of a change that is looked at for its cause.
    frozenset({"ChangePiece", "CostChange"}),
}


def _classes(path: Path) -> list[ast.ClassDef]:
    return [node for node in tree(path).body if isinstance(node, ast.ClassDef)]


def test_no_class_name_lives_in_two_modules() -> None:
    """A reader who meets a name knows which class is meant without looking at the imports."""
    homes = defaultdict(list)
    for path in modules(PACKAGE):
        for node in _classes(path):
            if not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(PACKAGE)))

    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_no_two_records_have_the_same_fields() -> None:
    """They would be one record; those that are not are listed with the difference."""
    alike = defaultdict(set)
    for path in modules(PACKAGE):
        for node in _classes(path):
            fields = frozenset(
                line.target.id
                for line in node.body
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
            )
            if len(fields) > 1 and _is_record(node):
                alike[fields].add(node.name)

    assert {frozenset(names) for names in alike.values() if len(names) > 1} == ALIKE


def _is_record(node: ast.ClassDef) -> bool:
    makers = [ast.unparse(each) for each in (*node.decorator_list, *node.bases)]
    return any("dataclass" in maker or maker == "NamedTuple" for maker in makers)


def test_no_identifier_has_a_coined_word() -> None:
    """An identifier's words are split at underscores and capitals."""
    coined = set()
    for path in modules(PACKAGE):
        source = io.StringIO(path.read_text(encoding="utf-8"))
        for token in tokenize.generate_tokens(source.readline):
            words = map(str.lower, re.findall("[A-Z]?[a-z]+|[A-Z]+", token.string))
            if token.type == tokenize.NAME and not COINED.isdisjoint(words):
                coined.add((str(path.relative_to(PACKAGE)), token.string))

    assert {each for each in coined if each[1] not in TERMS} == set()
