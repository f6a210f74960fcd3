"""`python -m tfprobe.trial.start SPEC.json`: enter the workspace of an arm and become the job.

It stands between the command and the job because there is no way back out of a namespace.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from tfprobe.errors import TfprobeError
from tfprobe.launch import environ, execute, prepare, settings
from tfprobe.trial.namespace import Overlay, enter

# As a shell's for a command that could not be started.
_NOT_STARTED = 126


def main(path: str) -> NoReturn:
    """Become the job of a spec: command, cwd, overlays, scratch, output, flags, trial."""
    spec = json.loads(Path(path).read_bytes())
    try:
        overlays = [Overlay(*map(Path, paths)) for paths in spec["overlays"]]
        refused = enter(overlays, Path(spec["scratch"])) if overlays else {}
        for problem in refused.values():  # the user's files would be written
            raise problem
        os.chdir(spec["cwd"])
        _become(spec)
    except (TfprobeError, OSError) as problem:
        sys.stderr.write(f"tfprobe: {problem}\n")
    sys.exit(_NOT_STARTED)


def _become(spec: Mapping[str, Any]) -> NoReturn:
    environment = environ.inherited()
    command = spec["command"]
    execute.locate(command[0], environment)
    flags = {**spec["flags"], "output": spec["output"], "join": "off", "no_meter": True}
    chosen = settings.resolve(settings.flag_layer(flags, spec["cwd"]))
    chosen = replace(chosen, trial=spec["trial"])
    run = prepare.prepare(chosen, command, environment=environment)
    prepare.publish(run, chosen, command, environment)
    path = execute.with_boot(str(run.folder.boot), environment.get("PYTHONPATH"))
    execute.become(command, {**environment, "PYTHONPATH": path})


if __name__ == "__main__":
    main(sys.argv[1])
