"""What tfprobe says of each loop, beside what is true of it: one row for each claim."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import jax_claims
import torch_claims
from answers import Recorded
from cases import FRAMEWORKS, Case
from claims import of_all
from evidence import MISSING, NEEDS_GPU, NOT_APPLICABLE, WRONG, Evidence, Row

from tfprobe.errors import Missing


def all_rows(folder: Path, python: str) -> Iterator[Row]:
    """Judge every case that left something in a folder."""
    machine = json.loads((folder / "machine.json").read_text(encoding="utf-8"))
    is_gpu = machine["platform"] != "cpu"
    claims_of = {"jax": jax_claims, "torch": torch_claims}[machine["framework"]]
    judged: dict[str, Evidence] = {}
    for case in (
        case for case in FRAMEWORKS[machine["framework"]].cases if case.name in machine["cases"]
    ):
        evidence = _evidence(case, folder / case.name, python, is_gpu=is_gpu)
        if isinstance(evidence, Missing):
            verdict = NOT_APPLICABLE if evidence.reason == NEEDS_GPU else MISSING
            yield Row(case.name, "the loop", evidence, evidence, "", verdict)
            continue
        judged[case.name] = evidence
        for claims in (of_all, claims_of.CLAIMS[case.loop]):
            yield from _tried(claims, evidence)
    yield from claims_of.of_several(judged)


def _tried(claims: Callable[[Evidence], Iterator[Row]], evidence: Evidence) -> Iterator[Row]:
    """Judge; an answer of another shape than expected costs its rows, and no others."""
    try:
        yield from claims(evidence)
    except (ArithmeticError, LookupError, TypeError, ValueError) as problem:
        why = Missing(f"reading ended with {type(problem).__name__}: {problem}")
        yield Row(evidence.case.name, "further rows", why, why, "", WRONG)


def _evidence(case: Case, folder: Path, python: str, *, is_gpu: bool) -> Evidence | Missing:
    if case.is_for_gpu and not is_gpu:
        return Missing(NEEDS_GPU)
    if not folder.is_dir():
        return Missing("it was not run")
    for way in ("bare", "recorded"):
        ending = json.loads((folder / f"{way}-0.ending.json").read_text(encoding="utf-8"))
        if ending["status"] != 0:
            last_words = (ending["stderr"].strip().splitlines() or ["nothing"])[-1]
            return Missing(f"the {way} program ended with {ending['status']}: {last_words}"[:200])
    runs = sorted((folder / "runs").glob("*/run.json"))
    if not runs:
        return Missing("the recorded program left no run")
    truth, bare = (
        json.loads((folder / f"{way}-0.truth.json").read_text(encoding="utf-8"))
        for way in ("recorded", "bare")
    )
    return Evidence(case, folder, Recorded(runs[0].parent, python), truth, bare, is_gpu)
