"""Record any training job without changing it, and read the recording back.

`tfprobe.open_run()` opens a recording from Python; `tfprobe.activity(name)` names a part of a job.
`%load_ext tfprobe` adds the commands that read to a notebook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from tfprobe.marks import activity
    from tfprobe.recording import Recording

__all__ = ["activity", "open_run", "__version__"]

__version__ = "0.1.0"


def open_run(path: str | Path = "latest", *, output: str | Path | None = None) -> Recording:
    """Open a run: a directory, a run id in `output`, or `latest`, the newest one there.

    `output` defaults to ./tfprobe-runs. Raises tfprobe.errors.UnreadableInput when `path` names
    no run, and tfprobe.errors.NoAnswer when there is no run at all.
    """
    # Imported here: `tfprobe run` imports this package and must not wait for numpy.
    from tfprobe import recording

    return recording.open_run(path, output=output)


def load_ipython_extension(shell: Any) -> None:  # Any: IPython, which nothing here imports
    """Add `%tfprobe` to a notebook: `%load_ext tfprobe`."""
    from tfprobe import notebook

    notebook.add_magic(shell)


def __getattr__(name: str) -> Any:
    # Any: what a module's attribute is. Looked for once, because a job may ask at each step.
    if name != "activity":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tfprobe.marks import activity

    globals()["activity"] = activity
    return activity
