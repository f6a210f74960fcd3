"""With the wrapt of the job, too, a patched method looks like the original."""

from __future__ import annotations

from pathlib import Path

from tests.agent.test_patching import look
from tests.tf.laboratory import Laboratory


def test_a_patched_method_looks_like_the_original(laboratory: Laboratory, tmp_path: Path) -> None:
    """With wrapt 1.12 to 2.5, whichever this TensorFlow brings."""
    bare = look(laboratory.python, tmp_path, "bare", use_wrapt=True)

    assert look(laboratory.python, tmp_path, "method", use_wrapt=True) == bare
    assert look(laboratory.python, tmp_path, "door", use_wrapt=True) == bare
