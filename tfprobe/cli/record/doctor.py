"""`tfprobe doctor`: check before a run whether it would record; if not, why."""

from __future__ import annotations

import json

import click

from tfprobe.cli import common
from tfprobe.launch import environ
from tfprobe.launch.doctor import Diagnosis, State, diagnose
from tfprobe.printable import printable
from tfprobe.runs.agent_files import mask_arguments

_MARKS = {State.PASSED: "✓", State.WARNING: "!", State.FAILED: "✗"}


@click.command("doctor", context_settings={"allow_interspersed_args": False})
@click.option("--deep", is_flag=True, help="Also import the frameworks, which takes a while.")
@click.argument("python", nargs=-1, type=click.UNPROCESSED, metavar="[PYTHON...]")
@common.output_option
@common.json_option
def command(output: str | None, deep: bool, as_json: bool, python: tuple[str, ...]) -> int:
    """Check whether a run would record here; if not, say why and what to do.

    It also says, for each of TensorFlow, Keras and JAX that the interpreter has, what would not be
    recorded.

    PYTHON is the interpreter of the job with its options, or the whole command; no script is run.
    The default is the `python3` on PATH. The exit status is 1 if a run would not record.
    """
    environment = environ.inherited()
    flags = {} if output is None else {"output": output}
    diagnosis = diagnose(
        python or ("python3",),
        flags=flags,
        environment=environment,
        cwd=environ.working_directory(),
        deep=deep,
    )
    common.show((_document(diagnosis) if as_json else _list(diagnosis)) + "\n")
    return 0 if diagnosis.would_record else 1


def _list(diagnosis: Diagnosis) -> str:
    lines = []
    for check in diagnosis.checks:
        lines.append(f"{_MARKS[check.state]} {check.message}")
        if check.action:
            lines.append(f"  → {check.action}")
    verdict = "would record" if diagnosis.would_record else "would not record"
    command = " ".join(mask_arguments(diagnosis.command))
    return "\n".join(map(printable, [*lines, "", f"tfprobe run -- {command} {verdict}."]))


def _document(diagnosis: Diagnosis) -> str:
    checks = [
        {
            "name": check.name,
            "state": check.state.value,
            "message": check.message,
            "action": check.action or None,
        }
        for check in diagnosis.checks
    ]
    document = {
        "schema": "tfprobe.doctor/1",
        "command": mask_arguments(diagnosis.command),
        "would_record": diagnosis.would_record,
        "checks": checks,
    }
    return json.dumps(document, indent=1)
