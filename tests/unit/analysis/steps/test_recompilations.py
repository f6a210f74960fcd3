"""Compilations of one function in one loop belong together; all but the first could be avoided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.profiles import profile
from tfprobe.analysis.steps.recompilations import BreakSite, break_sites, reason_of, recompilations
from tfprobe.profile.compilations import TORCH_COMPILE, ArgumentChange, Compilation, GraphBreak

MS = 1_000_000
ROWS = ArgumentChange("x", "shape", "float32[8,3]", "float32[5,3]")


def compiled(name: str = "step", *changes: ArgumentChange, **facts) -> Compilation:
    """Return a compilation of 10 ms, for arguments that differ by these changes."""
    known = {
        "process": 0,
        "loop": 2,
        "step": 0,
        "start_ns": 0,
        "trace_ns": 1 * MS,
        "lower_ns": 2 * MS,
        "backend_ns": 7 * MS,
        "is_first": False,
        "is_cached": False,
        "file": "/home/ada/train.py",
        "line": 31,
    }
    return Compilation(**{**known, "name": name, "changes": changes, **facts})


FIRST = compiled(is_first=True, changes=None, backend_ns=87 * MS)


def test_the_first_compilation_is_needed() -> None:
    """The others are summed, with what differs and where."""
    made = profile(compilations=(FIRST, compiled("step", ROWS), compiled("step", ROWS)))

    (found,) = recompilations(made, 0)

    assert (found.name, found.count, found.further_ns) == ("step", 3, 20 * MS)
    assert [(change.count, change.example) for change in found.changes] == [(2, ROWS)]
    assert (found.new_functions, found.unchanged) == (0, 0)
    assert found.source == "/home/ada/train.py:31"


def test_new_functions_and_the_same_arguments_are_told_apart() -> None:
    """A function that is made in each round was never compiled before."""
    again = compiled(is_first=True, changes=None)

    (found,) = recompilations(profile(compilations=(FIRST, again, again, compiled())), 0)

    assert (found.new_functions, found.unchanged, found.changes) == (2, 1, ())


def test_other_loops_processes_and_names_are_others() -> None:
    """None of these was compiled twice."""
    others = (compiled(loop=3), compiled(process=1), compiled("init"), compiled(loop=None))

    assert recompilations(profile(compilations=(FIRST, *others)), 0) == ()


STATIC = ArgumentChange("mode", "static value", "'add'", "")


@pytest.mark.parametrize(
    ("compilation", "reason"),
    [
        (FIRST, "new function"),
        (compiled(), "no argument differs"),
        (compiled(changes=None), "not known: too many arrays to compare"),
        (compiled("step", ROWS), "x float32[8,3] → float32[5,3]"),
        (compiled("step", STATIC, ROWS), "mode, static value: 'add' → none, and 1 more"),
        (compiled(changes=None, compiler=TORCH_COMPILE), "not known"),
        (compiled("step", ArgumentChange("", "guard", "Ne(a, b)", "")), "Ne(a, b)"),
        (compiled("step", ROWS, changes_left_out=4), "x float32[8,3] → float32[5,3], and 4 more"),
    ],
)
def test_each_has_its_reason(compilation, reason) -> None:
    """In one line, with the first argument that differs."""
    assert reason_of(compilation) == reason


def test_functions_of_torch_compile_are_one_for_all_loops() -> None:
    """The first is compiled before its loop is known: that of an optimizer begins with its step."""
    first = replace(FIRST, loop=None, step=None, compiler=TORCH_COMPILE)
    again = compiled("step", ROWS, compiler=TORCH_COMPILE)

    (found,) = recompilations(profile(compilations=(first, again)), 0)

    assert (found.count, found.compiler, found.further_ns) == (2, TORCH_COMPILE, 10 * MS)


def test_breaks_at_one_line_are_one() -> None:
    """Each compilation meets them again; another reason is another."""
    at = GraphBreak(0, 2, 7, "f", 1, "print", "/home/ada/train.py", 9)
    breaks = (at, replace(at, step=9), replace(at, reason="item"), replace(at, process=1))

    found = break_sites(profile(graph_breaks=breaks), 0)

    place = "/home/ada/train.py:9"
    assert found == (
        BreakSite("f", "print", place, 2, 2, is_skipped=False, step=7),
        BreakSite("f", "item", place, 1, 2, is_skipped=False, step=7),
    )
