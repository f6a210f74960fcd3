"""Our pprof files are those of tfprof's own engine, recorded from TensorFlow 2.21."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.unit.tfprof.engine import choice, read, recorded
from tfprobe.analysis.ops.code_view import code
from tfprobe.analysis.ops.tfprof_records import costs
from tfprobe.export.pprof import engine_pprof

# The recordings with code; how many files each holds, so that one half read is noticed.
FILES = {"cpu_model_while_grad": 27, "syn_code": 9}


@pytest.mark.parametrize("case", FILES)
def test_profiles_are_the_engines_byte_for_byte(case: str) -> None:
    """Unpacked, every file the engine wrote comes out the same."""
    folder = recorded(case)
    results = json.loads(gzip.decompress((folder / "results.json.gz").read_bytes()))
    profile = read(folder, results["steps"])
    files = sorted((folder / "out").glob("code_*_pprof.out"))

    differing = []
    for file in files:
        chosen = choice(results["results"][int(file.name.split("_")[1])]["options"])
        of_step = costs(profile, chosen.step)
        ours = engine_pprof(
            profile, of_step, code(profile, of_step, chosen).shown, chosen.select[0]
        )
        if gzip.decompress(ours) != gzip.decompress(file.read_bytes()):
            differing.append(file.name)

    assert differing == []
    assert len(files) == FILES[case]
