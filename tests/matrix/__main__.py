"""Run the tests of the matrix, such as tests/jax, in its cells, and print one table.

`python -m tests.matrix [CELL...]` runs the named cells, or all; if CI=true, all but those of
versions between.

Exits 1 if a test failed, or if CI=true and a required cell could not be run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tests.matrix.cells import CELLS, FURTHER, Cell
from tests.matrix.environments import Unavailable, prepare

ROOT = Path(__file__).resolve().parents[2]

# Far above the few minutes a cell takes; a hang must not eat the time of the others.
CELL_TIMEOUT_S = 1500


@dataclass
class Result:
    """What one cell came to."""

    cell: Cell
    version: str = "-"
    passed: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    # Why, by test.
    skipped: dict[str, str] = field(default_factory=dict)
    # Why the cell was not run at all, or "".
    unavailable: str = ""
    seconds: float = 0


def main(names: list[str]) -> int:
    """Run the chosen cells; print the table and the closing line; return the exit status."""
    unknown = set(names) - {cell.name for cell in CELLS}
    if unknown:
        known = ", ".join(cell.name for cell in CELLS)
        print(f"no such cell: {', '.join(sorted(unknown))}; there are {known}", file=sys.stderr)
        return 2
    strict = os.environ.get("CI") == "true"
    wanted = chosen(names, strict=strict)
    results = []
    # pip waits for the index and the disk: the next environments are made while tests run.
    with ThreadPoolExecutor(max_workers=1) as maker:
        environments = [maker.submit(prepare, cell) for cell in wanted]
        for cell, environment in zip(wanted, environments, strict=True):
            print(f"{cell.name} ...", flush=True)
            results.append(run(cell, environment))
            print(f"{cell.name}: {verdict(results[-1])}", flush=True)
    show(results)
    return close(results, strict=strict)


def chosen(names: list[str], *, strict: bool) -> list[Cell]:
    """Return the named cells; without names all, if `strict` without those of versions between."""
    if names:
        return [cell for cell in CELLS if cell.name in names]
    return [cell for cell in CELLS if not (strict and cell.is_between)]


def run(cell: Cell, environment: Future[Path]) -> Result:
    """Run the tests in the cell, once its environment is there."""
    result = Result(cell)
    try:
        python = environment.result()
    except Unavailable as error:
        result.unavailable = str(error)
        return result
    started = time.monotonic()
    result.version = _version(python, cell.packages)
    with tempfile.TemporaryDirectory() as folder:
        outcome = Path(folder) / "outcome.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            cell.tests,
            "-q",
            # Jobs spend half their time importing their framework, one thread each.
            "-n",
            "2",
            # Tests of one job stay together: it is run once, for all of them.
            "--dist=loadgroup",
            "--tb=short",
            f"--junitxml={outcome}",
        ]
        command += [f"--ignore={cell.tests}/{name}" for name in FURTHER if name not in cell.more]
        env = {**os.environ, "TFPROBE_TEST_PYTHON": str(python)}
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=CELL_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            result.failed.append(f"the tests took more than {CELL_TIMEOUT_S} s")
            return result
        if outcome.exists():
            _read(outcome, result)
        if done.returncode != 0:
            print(done.stdout[-20_000:], done.stderr[-2_000:])
        if done.returncode != 0 and not result.failed:
            result.failed.append(f"pytest ended with status {done.returncode}")
    if not result.passed and not result.failed:
        result.failed.append("no test was run")
    result.seconds = time.monotonic() - started
    return result


def show(results: list[Result]) -> None:
    """Print one line for each cell, then what failed and what was skipped, with why."""
    print(
        f"\n{'cell':18}{'python':8}{'framework':12}{'passed':>7}{'failed':>7}{'skipped':>8}{'s':>6}"
    )
    for result in results:
        cell, skipped = result.cell, len(result.skipped)
        counts = f"{len(result.passed):7}{len(result.failed):7}{skipped:8}{result.seconds:6.0f}"
        note = f"  not run: {result.unavailable}" if result.unavailable else ""
        print(f"{cell.name:18}{cell.python:8}{result.version:12}{counts}{note}")
    for result in results:
        for test in result.failed:
            print(f"failed in {result.cell.name}: {test}")
        for why, times in sorted(Counter(result.skipped.values()).items()):
            print(f"skipped in {result.cell.name}: {times} because {why}")


def close(results: list[Result], *, strict: bool) -> int:
    """Print the closing line and return the exit status."""
    absent = [result for result in results if result.unavailable]
    fatal = [result for result in absent if strict and result.cell.required]
    for result in fatal:
        print(f"{result.cell.name} is required under CI=true and was not run: {result.unavailable}")
    never = (
        never_run(results)
        if strict and {result.cell for result in results} >= set(chosen([], strict=True))
        else {}
    )
    for test, why in sorted(never.items()):
        print(f"{test} ran in no cell, and must in one under CI=true: {why}")
    passed = sum(len(result.passed) for result in results)
    failed = sum(len(result.failed) for result in results) + len(fatal) + len(never)
    skipped = sum(len(result.skipped) for result in results) + len(absent) - len(fatal)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def never_run(results: list[Result]) -> dict[str, str]:
    """Return the tests that every cell skipped, each with the reason of one cell.

    None where a cell was not run: that cell may be the one that a test is for.
    """
    if any(result.unavailable for result in results):
        return {}
    ran = {test for result in results for test in (*result.passed, *result.failed)}
    skipped = {test: why for result in results for test, why in result.skipped.items()}
    return {test: why for test, why in skipped.items() if test not in ran}


def verdict(result: Result) -> str:
    """Say in a word how a cell went."""
    if result.unavailable:
        return f"not run: {result.unavailable}"
    return f"{len(result.failed)} failed" if result.failed else "passed"


def _version(python: Path, packages: tuple[str, ...]) -> str:
    freeze = [str(python), "-m", "pip", "freeze", "--disable-pip-version-check"]
    lines = subprocess.run(freeze, capture_output=True, text=True).stdout.split()
    names = tuple(f"{package}==" for package in packages)
    return next((line.split("==")[1] for line in lines if line.startswith(names)), "-")


def _read(outcome: Path, result: Result) -> None:
    for case in ElementTree.parse(outcome).iter("testcase"):
        # pytest-xdist writes the group of a test behind its name.
        name = re.sub(r"@[^]]*$", "", case.get("name", ""))
        test = f"{case.get('classname', '').replace('.', '/')}.py::{name}"
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            result.failed.append(test)
        elif skip is not None:
            result.skipped[test] = skip.get("message") or "no reason given"
        else:
            result.passed.add(test)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
