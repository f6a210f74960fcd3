"""Decode an HloProto into a program: its instructions with their shapes, and its memory."""

from __future__ import annotations

from typing import Any

from tfprobe.formats.schema import enum_names, parse
from tfprobe.formats.xspace.op_names import op_path
from tfprobe.profile.hlo import (
    TUPLE,
    Assigned,
    BufferAllocation,
    BufferAssignment,
    BufferEvent,
    ConvolutionDimensions,
    DotDimensions,
    HloComputation,
    HloInstruction,
    HloModule,
    HloShape,
    LogicalBuffer,
    WindowDimension,
)

# Tuples of no program are nested deeper.
_DEEPEST = 50


def read_module(content: bytes) -> HloModule:
    """Decode an HloProto.

    Raises UnreadableInput if the bytes are none.
    """
    proto = parse(content, "tfprobe.hlo.HloProto")
    types = {at: name.lower() for at, name in enum_names("tfprobe.hlo.PrimitiveType").items()}
    module = proto.hlo_module
    computations = {
        each.id: HloComputation(
            id=each.id,
            name=each.name,
            instructions=tuple(_instruction(given, types) for given in each.instructions),
            root=each.root_id,
        )
        for each in module.computations
    }
    return HloModule(
        name=module.name,
        computations=computations,
        entry=module.entry_computation_id,
        buffers=_buffers(proto, computations),
    )


def _instruction(given: Any, types: dict[int, str]) -> HloInstruction:
    """Return an instruction. Any: an HloInstructionProto, whose class is made at run time."""
    has_dot = given.HasField("dot_dimension_numbers")
    has_roles = given.HasField("convolution_dimension_numbers")
    return HloInstruction(
        id=given.id,
        name=given.name,
        opcode=given.opcode,
        shape=_shape(given.shape, types),
        op_name=given.metadata.op_name,
        path=op_path(given.metadata.op_name),
        operands=tuple(given.operand_ids),
        called=tuple(given.called_computation_ids),
        dimensions=tuple(given.dimensions),
        dot=_dot(given.dot_dimension_numbers) if has_dot else None,
        window=tuple(_window(each) for each in given.window.dimensions),
        convolution=_convolution(given.convolution_dimension_numbers) if has_roles else None,
        feature_groups=given.feature_group_count or 1,
        batch_groups=given.batch_group_count or 1,
        fft_length=tuple(given.fft_length),
        target=given.custom_call_target,
        config=given.backend_config,
        parameter=given.parameter_number,
        tuple_index=given.tuple_index,
        replica_groups=tuple(tuple(group.replica_ids) for group in given.replica_groups),
    )


def _shape(given: Any, types: dict[int, str], depth: int = 0) -> HloShape:
    if given.tuple_shapes and depth < _DEEPEST:
        return HloShape(
            TUPLE, parts=tuple(_shape(part, types, depth + 1) for part in given.tuple_shapes)
        )
    return HloShape(
        types.get(given.element_type, "unknown"),
        tuple(given.dimensions),
        is_dynamic=any(given.is_dynamic_dimension),
    )


def _dot(given: Any) -> DotDimensions:
    return DotDimensions(
        lhs_contracting=tuple(given.lhs_contracting_dimensions),
        rhs_contracting=tuple(given.rhs_contracting_dimensions),
        lhs_batch=tuple(given.lhs_batch_dimensions),
        rhs_batch=tuple(given.rhs_batch_dimensions),
    )


def _window(given: Any) -> WindowDimension:
    return WindowDimension(
        size=given.size,
        stride=given.stride or 1,
        padding_low=given.padding_low,
        padding_high=given.padding_high,
        window_dilation=given.window_dilation or 1,
        base_dilation=given.base_dilation or 1,
    )


def _convolution(given: Any) -> ConvolutionDimensions:
    return ConvolutionDimensions(
        input_batch=given.input_batch_dimension,
        input_feature=given.input_feature_dimension,
        input_spatial=tuple(given.input_spatial_dimensions),
        kernel_input_feature=given.kernel_input_feature_dimension,
        kernel_output_feature=given.kernel_output_feature_dimension,
        kernel_spatial=tuple(given.kernel_spatial_dimensions),
        output_batch=given.output_batch_dimension,
        output_feature=given.output_feature_dimension,
        output_spatial=tuple(given.output_spatial_dimensions),
    )


def _buffers(proto: Any, computations: dict[int, HloComputation]) -> BufferAssignment | None:
    if not proto.HasField("buffer_assignment"):
        return None
    given = proto.buffer_assignment
    names = {
        instruction.id: instruction.name
        for computation in computations.values()
        for instruction in computation.instructions
    }
    buffers = {each.id: _buffer(each, names) for each in given.logical_buffers}
    traces = given.heap_simulator_traces
    # Of parts of a program, nobody knows which are live at once.
    is_whole = all(trace.whole_module_simulation for trace in traces)
    events = tuple(
        BufferEvent(
            buffer=event.buffer_id,
            instruction=event.instruction_name,
            is_free=event.kind == _FREE,
            shared=event.share_with_canonical_id if event.kind == _SHARE else None,
        )
        for trace in (traces if is_whole else ())
        for event in trace.events
    )
    allocations = tuple(_allocation(each) for each in given.buffer_allocations)
    return BufferAssignment(buffers, allocations, events)


# Kinds of events in the simulation of a heap.
_FREE, _SHARE = 1, 2


def _buffer(given: Any, names: dict[int, str]) -> LogicalBuffer:
    place = given.defined_at
    name = place.instruction_name or names.get(place.instruction_id, "")
    return LogicalBuffer(given.id, given.size, name, tuple(place.shape_index))


def _allocation(given: Any) -> BufferAllocation:
    return BufferAllocation(
        index=given.index,
        bytes=given.size,
        parameter=given.parameter_number if given.is_entry_computation_parameter else None,
        part=tuple(given.parameter_shape_index),
        is_output=given.maybe_live_out,
        is_constant=given.is_constant,
        is_thread_local=given.is_thread_local,
        assigned=tuple(
            Assigned(each.logical_buffer_id, each.offset, each.size) for each in given.assigned
        ),
    )
