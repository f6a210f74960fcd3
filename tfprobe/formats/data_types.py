"""Write types and shapes of tensors as text: "float32[64,10]"."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from tfprobe.formats.schema import message_class

_UNLIKE_NUMPY = {"float": "float32", "double": "float64", "half": "float16", "invalid": ""}


@cache
def data_type(number: int) -> str:
    """Return the name of a type by TensorFlow's number for it; "" where there is none."""
    field = message_class("tfprobe.step_stats.TensorDescription").DESCRIPTOR.fields_by_name["dtype"]
    known = field.enum_type.values_by_number.get(number)
    return named_data_type(known.name) if known is not None else ""


def named_data_type(written: str) -> str:
    """Return the name of a type that is written "DT_FLOAT" or "float"."""
    name = written.removeprefix("DT_").removesuffix("_REF").lower()
    return _UNLIKE_NUMPY.get(name, name)


def tensor_text(type_name: str, sizes: Iterable[int]) -> str:
    """Return type and shape as one text."""
    return f"{type_name}[{','.join(map(str, sizes))}]"
