"""The tables about what captures hold."""

from __future__ import annotations

from tfprobe.query.tables.shapes import CAPTURE_KEY, Shape, Source, text, truth, whole

CAPTURES = Shape(
    "captures",
    "The recorded steps whose captures could be read.",
    Source.CAPTURES,
    (
        *CAPTURE_KEY,
        text("file", "its file in the folder of the process"),
        text("level", "full, software or window: how it was traced"),
        whole("start_ns", "start of the step, unix ns"),
        whole("duration_ns", "length of the step, with what tracing added"),
        whole("plain_ns", "length of the usual step then; NULL: none to compare with"),
        whole("fed_bytes", "arrays that the step was fed; NULL: not known"),
        whole("result_bytes", "tensors that the step returned; NULL: not known"),
        whole("executions", "node executions that it holds"),
    ),
)
EXECUTIONS = Shape(
    "executions",
    "One row for each execution of a node in a recorded step.",
    Source.CAPTURES,
    (
        *CAPTURE_KEY,
        text("device", "device it ran on"),
        text("lane", "thread or stream it ran on"),
        text("name", "name of the node"),
        text("op_type", "type of its op"),
        text(
            "place",
            "host: a thread ran or scheduled the op; accelerator: its kernel ran; "
            "host_to_device, device_to_host, device_to_device: a copy",
        ),
        truth("background", "on a thread that prepares later steps, as tf.data's"),
        whole("start_ns", "unix ns"),
        whole("duration_ns", "time inside the op, or of the kernel"),
        whole("bytes", "asked of allocators; NULL: an XSpace does not tell"),
        whole("output_bytes", "held by its outputs; NULL: an XSpace does not tell"),
        text("detail", "the kernel, what is known of a copy, or the iterator of tf.data"),
        whole("correlation", "what a kernel or copy shares with the driver call in `spans`"),
    ),
)
SPANS = Shape(
    "spans",
    "What an XSpace tells besides executions: driver calls, iterators, tracing.",
    Source.CAPTURES,
    (
        *CAPTURE_KEY,
        text(
            "kind",
            "runtime, launch, copy_call, sync, iterator, compile, function_call, python, "
            "dataset_function",
        ),
        text("lane", "its thread"),
        text("name", "what was called"),
        text("detail", "what TensorFlow says of it"),
        truth("background", "on a thread that prepares later steps"),
        whole("start_ns", "unix ns"),
        whole("duration_ns", "its length"),
        whole("identity", "number of an iterator, or of a function's run"),
        whole("parent", "number of the iterator that called it"),
        whole("correlation", "what a driver call shares with what it starts in `executions`"),
        whole("bytes", "what a copy call moves; NULL: not known"),
    ),
)
ALLOCATIONS = Shape(
    "allocations",
    "What allocators gave (bytes above 0) and took back (below 0) during captures.",
    Source.CAPTURES,
    (
        *CAPTURE_KEY,
        text("allocator", "name of the allocator"),
        text("device", "device of the op"),
        text("op", "node that the bytes were taken for"),
        text("op_type", "type of its op"),
        text("shape", "type and shape of the tensor, as float32[64,28,28,1]"),
        whole("at_ns", "unix ns"),
        whole("bytes", "taken, or given back; 0: the allocator only said what it held"),
        whole("address", "tells which return belongs to which piece"),
        whole("in_use_bytes", "held by tensors right after"),
        whole("free_bytes", "what the allocator may give besides"),
        whole("peak_bytes", "the most that it held so far"),
        whole("largest_free_bytes", "the largest piece that it could give at once"),
    ),
)
