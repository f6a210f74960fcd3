"""The tables about what captures hold."""

from __future__ import annotations

from tfprobe.query.tables.shapes import CAPTURE_KEY, Shape, Source, text, truth, whole

CAPTURES = Shape(
    "captures",
    "The traced steps whose captures could be read.",
    Source.CAPTURES,
    (
        *CAPTURE_KEY,
        text("file", "file in the folder of the process"),
        text("level", "trace level: full, software or window"),
        whole("start_ns", "start of the step, unix ns"),
        whole("duration_ns", "duration of the step, including the overhead of tracing"),
        whole("plain_ns", "duration of the usual step at that time; NULL: nothing to compare with"),
        whole("fed_bytes", "bytes of the arrays fed to the step; NULL: not known"),
        whole("result_bytes", "bytes of the tensors the step returned; NULL: not known"),
        whole("executions", "number of node executions"),
    ),
)
EXECUTIONS = Shape(
    "executions",
    "One row for each execution of a node in a traced step.",
    Source.CAPTURES,
    (
        *CAPTURE_KEY,
        text("device", "device it ran on"),
        text("lane", "thread or stream it ran on"),
        text("name", "name of the node"),
        text("op_type", "op type"),
        text(
            "place",
            "host: a thread ran or scheduled the op; accelerator: its kernel ran; "
            "host_to_device, device_to_host, device_to_device: a copy",
        ),
        truth("background", "on a thread that prepares later steps, such as tf.data's"),
        whole("start_ns", "unix ns"),
        whole("duration_ns", "duration of the op, or of the kernel"),
        whole("bytes", "bytes requested from allocators; NULL: not in an XSpace"),
        whole("output_bytes", "bytes held by its outputs; NULL: not in an XSpace"),
        text("detail", "the kernel, details of a copy, or the tf.data iterator"),
        whole(
            "correlation",
            "correlation id that a kernel or copy shares with the driver call in `spans`",
        ),
    ),
)
SPANS = Shape(
    "spans",
    "Other events of an XSpace: driver calls, iterators, tracing.",
    Source.CAPTURES,
    (
        *CAPTURE_KEY,
        text(
            "kind",
            "runtime, launch, copy_call, sync, iterator, compile, function_call, python, "
            "dataset_function",
        ),
        text("lane", "thread"),
        text("name", "name of the call"),
        text("detail", "details from TensorFlow"),
        truth("background", "on a thread that prepares later steps"),
        whole("start_ns", "unix ns"),
        whole("duration_ns", "duration"),
        whole("identity", "number of an iterator, or of a run of a function"),
        whole("parent", "number of the calling iterator"),
        whole(
            "correlation",
            "correlation id that a driver call shares with what it starts in `executions`",
        ),
        whole("bytes", "bytes copied; NULL: not known"),
    ),
)
ALLOCATIONS = Shape(
    "allocations",
    "Memory allocated (bytes above 0) and freed (below 0) during captures.",
    Source.CAPTURES,
    (
        *CAPTURE_KEY,
        text("allocator", "name of the allocator"),
        text("device", "device of the op"),
        text("op", "node that the bytes were allocated for"),
        text("op_type", "op type"),
        text("shape", "type and shape of the tensor, such as float32[64,28,28,1]"),
        whole("at_ns", "unix ns"),
        whole("bytes", "bytes allocated or freed; 0: the allocator only reported what it held"),
        whole("address", "address, which matches a deallocation with its allocation"),
        whole("in_use_bytes", "bytes held by tensors right after"),
        whole("free_bytes", "further bytes available from the allocator"),
        whole("peak_bytes", "peak of the bytes it held so far"),
        whole("largest_free_bytes", "largest block available"),
    ),
)
