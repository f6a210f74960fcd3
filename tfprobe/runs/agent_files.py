"""The agent's files in this installation, and its rules for secrets, which we run, too."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import tfprobe

_HOOKS = "sitecustomize_hooks"
ENTRY = "sitecustomize.py"
AGENT = "tfprobe_agent"
MASK = "***"


def hooks_dir() -> Path:
    """Find the agent: inside the installed package, or beside it in a checkout.

    Raises FileNotFoundError where the installation has none.
    """
    package = Path(tfprobe.__file__).resolve().parent
    places = (package / _HOOKS, package.parent / _HOOKS)
    for place in places:
        if (place / ENTRY).is_file():
            return place
    raise FileNotFoundError(2, f"the agent is missing from this installation ({places[0]})")


def mask_arguments(arguments: Iterable[str]) -> list[str]:
    """Copy a command line with everything that looks secret replaced by `***`."""
    masked: list[str] = _redact().arguments(arguments)
    return masked


def mask_text(text: str) -> str:
    """Mask what looks secret inside one argument, which may be a whole script or document."""
    masked: str = _redact().text(text)
    return masked


def is_secret(name: str) -> bool:
    """Tell by its words whether a name holds a secret: `hf_token` does, `tokenizer` does not."""
    found: bool = _redact().is_secret(name)
    return found


@functools.cache
def _redact() -> ModuleType:
    # By its file and outside of sys.modules: as a package the agent belongs to recorded jobs.
    path = hooks_dir() / AGENT / "redact.py"
    spec = importlib.util.spec_from_file_location("tfprobe_redact", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded", path=str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
