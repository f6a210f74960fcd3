"""Say what a view shows and what its columns mean: the lines above a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfprobe.analysis.ops.view_options import Choice

VIEWS: Mapping[str, str] = {
    "code": "Ops by the lines of Python that made them; each line with all that it calls.",
    "graph": "Ops along the edges of the graph; each op with those that it takes its inputs from.",
    "op": "Ops by type; shares are of all, first with what follows in the list, then alone.",
    "scope": "Ops by name scope; each scope with all that is inside it.",
}
_COLUMNS: Mapping[str, str] = {
    "accelerator_micros": "accelerator execution time: kernels on the device.",
    "bytes": "requested bytes: memory asked of allocators, over all runs.",
    "cpu_micros": "cpu execution time: the op on its thread; for an op of a device, its launch.",
    "device": "assigned devices: where the op was placed.",
    "float_ops": "float_ops: arithmetic of all runs; 0 where no formula or shape is known.",
    "input_shapes": "input shapes: of each input by its number.",
    "micros": "total execution time: accelerator and cpu time; they may overlap.",
    "occurrence": "op count: how often it ran, and how often it is defined.",
    "op_types": "op types: the op, its device, and what the op log says of it.",
    "output_bytes": "output bytes: memory of its outputs, whoever allocated it.",
    "params": "parameters: numbers in a variable.",
    "peak_bytes": "peak bytes: the most it held while it ran.",
    "residual_bytes": "residual bytes: what it still held afterwards.",
    "tensor_value": "tensor value: from a checkpoint.",
}


def explanations(view: str, choice: Choice) -> str:
    """Return the lines above a report, the last of them empty."""
    return "".join(f"{line}\n" for line in _lines(view, choice))


def _lines(view: str, choice: Choice) -> Iterator[str]:
    yield f"{view}: {VIEWS[view]}"
    for name in sorted(set(choice.select)):
        if name in _COLUMNS:
            yield _COLUMNS[name]
    yield ""
