"""Write the arrays that the job trains, so that arms can be compared: weights.json, and weights.bin if small."""

import sys
from hashlib import sha1
from json import dumps

from tfprobe_agent.core.guard import STATE
from tfprobe_agent.core.recorder import current_recorder
from tfprobe_agent.interruptions import let_through

from . import seeds
from .frameworks import FRAMEWORKS

# The most that weights.bin may take.
MAX_BYTES = 64 << 20
# Why they are not written, if a fix has said so.
_left_out = []


def leave_out(why):
    """Write no weights: at the end of a unit they are not those of the base. Called by fixes."""
    _left_out.append(why)


def write(unit):
    """Write the weights as they are after this unit, or why there are none."""
    try:
        document, data = _measured(unit)
    except Exception as error:
        let_through()
        STATE.log.error("reading weights")
        document, data = {"missing": "%s: %s" % (type(error).__name__, error)}, None
    process_dir = current_recorder().process_dir
    if data:
        process_dir.write_file(data, "weights.bin")
    process_dir.write_file(dumps(document, indent=1).encode("utf-8"), "weights.json")


def _measured(unit):
    if _left_out:
        return {"missing": _left_out[0]}, None
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return {"missing": "the job has not imported NumPy"}, None
    named, reasons, is_ordered = [], [], True
    for framework in map(seeds.load, FRAMEWORKS):
        arrays = framework.arrays()
        if isinstance(arrays, str):
            reasons.append(arrays)
        else:
            named += arrays
            is_ordered = is_ordered and (framework.ORDERED or not arrays)
    if not named:
        return {"missing": "; ".join(reasons) or "no arrays are trained"}, None
    wide = [numpy.ascontiguousarray(values, dtype="<f8") for _, values in named]
    entries = [_entry(numpy, name, values, copy) for (name, values), copy in zip(named, wide)]
    is_small = sum(copy.nbytes for copy in wide) <= MAX_BYTES
    document = {"unit": unit, "ordered": is_ordered, "arrays": entries}
    return document, b"".join([copy.tobytes() for copy in wide]) if is_small else None


def _entry(numpy, name, values, copy):
    values = numpy.asarray(values)
    return {
        "name": name,
        "shape": list(values.shape),
        "dtype": str(values.dtype),
        "sha1": sha1(numpy.ascontiguousarray(values).tobytes()).hexdigest(),
        "norm": float(numpy.sqrt(numpy.square(copy).sum())),
    }
