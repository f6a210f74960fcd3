"""Hold what a view is asked for: the options of tfprof, by its names. Parses nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# What a node costs, in the order that tfprof lists the options about it.
METRICS: tuple[str, ...] = (
    "bytes",
    "peak_bytes",
    "residual_bytes",
    "output_bytes",
    "micros",
    "accelerator_micros",
    "cpu_micros",
    "params",
    "float_ops",
    "occurrence",
)
ATTRIBUTES: tuple[str, ...] = (*METRICS, "tensor_value", "device", "op_types", "input_shapes")
ORDERS: tuple[str, ...] = ("name", *METRICS)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which nodes a view accounts, shows and orders, and by what.

    `least` holds the smallest value of a metric that is shown, 0 where it is not named. `step` -1
    stands for the average over the steps in which a node ran. Regexes are RE2's, of whole names.

    `as_engine` asks for what tfprof's engine does where that is not what its words say: a scope
    that is not accounted adds its own costs, a node counts once for each pattern that matches it,
    `least` of params, float_ops and occurrence is compared with the node alone, and in the op view
    with all that follows in the list, of which one more entry is shown than `max_depth` says.
    """

    max_depth: int = 10
    least: Mapping[str, int] = field(default_factory=dict)
    step: int = -1
    order_by: str = "name"
    account_type_regexes: tuple[str, ...] = (".*",)
    start_name_regexes: tuple[str, ...] = (".*",)
    trim_name_regexes: tuple[str, ...] = ()
    show_name_regexes: tuple[str, ...] = (".*",)
    hide_name_regexes: tuple[str, ...] = ()
    account_displayed_op_only: bool = False
    select: tuple[str, ...] = ("micros",)
    as_engine: bool = False
