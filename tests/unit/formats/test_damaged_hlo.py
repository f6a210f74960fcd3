"""Damaged programs in a capture cost their names, and never more: no traceback, and no hang."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.support.captures import TraceEvent
from tests.support.golden import golden
from tests.unit.formats.test_hlo import MODULE, capture, fusion_of_jax, program, ran
from tfprobe.cli.main import main
from tfprobe.errors import UnreadableInput
from tfprobe.formats.schema import parse
from tfprobe.formats.xspace import ran_nodes, ran_programs, read
from tfprobe.formats.xspace.hlo_module import read_module
from tfprobe.formats.xspace.hlo_program import read_hlo

SEED = 20261124
EVENTS = [ran("MatMul.8", 3, 20, _p=7, _pt=0), ran("fusion.7", 30, 5), ran("copy.1", 40, 1)]
ENDS = [TraceEvent("end: MatMul.8", 50, 1, {"_c": 7, "_ct": 0})]


def mutations(content: bytes, count: int) -> Iterator[bytes]:
    """Yield what damage makes of bytes: cut, flipped, overwritten, doubled, with parts left out."""
    chance = random.Random(SEED)
    for _ in range(count):
        damaged = bytearray(content)
        for _ in range(chance.choice((1, 1, 2, 5, 20))):
            at = chance.randrange(len(damaged) or 1)
            length = chance.choice((1, 2, 8, 100))
            match chance.randrange(5):
                case 0:
                    del damaged[at:]
                case 1 if damaged:
                    damaged[at] ^= 1 << chance.randrange(8)
                case 2:
                    damaged[at : at + length] = chance.randbytes(length)
                case 3:
                    damaged[at:at] = damaged[at : at + length]
                case _:
                    del damaged[at : at + length]
        yield bytes(damaged)


def programs_of(content: bytes) -> list[bytes]:
    """Return the HloProtos of an XSpace."""
    space = parse(content, "tfprobe.xplane.XSpace")
    return [
        stat.bytes_value
        for plane in space.planes
        for metadata in plane.event_metadata.values()
        for stat in metadata.stats
        if stat.bytes_value
    ]


def looked_at(content: bytes) -> None:
    """Read an HloProto in each way there is; only UnreadableInput may be raised."""
    for reader in (read_hlo, read_module):
        try:
            reader(content)
        except UnreadableInput:
            continue


def test_no_damage_to_a_program_raises_or_hangs() -> None:
    """Numbers of computations, frames and operands may lead anywhere."""
    small = program().SerializeToString()
    fused = fusion_of_jax(("dot", "jit(f)/jvp(Net)/a/dot"), ("add", "jit(f)/jvp(Net)/a/add"))

    for content in (small, fused.SerializeToString()):
        for damaged in mutations(content, 1500):
            looked_at(damaged)


def test_no_damage_to_a_recorded_program_raises_or_hangs() -> None:
    """The same with a real one."""
    recorded = golden("frameworks", "jax_cpu_window_one_step.xplane.pb").read_bytes()
    largest = max(programs_of(recorded), key=len)

    for damaged in mutations(largest, 60):
        looked_at(damaged)


def test_a_damaged_program_does_not_change_what_ran() -> None:
    """Its instructions keep their own names or get others, but times and their number stay."""
    whole = capture({"/host:CPU": {"pool/1": EVENTS, "pool/2": ENDS}}, program())
    times = [(row.start_ns, row.duration_ns) for row in read(whole).rows]
    seen = set()

    for damaged in mutations(program().SerializeToString(), 400):
        content = capture(
            {"/host:CPU": {"pool/1": EVENTS, "pool/2": ENDS}}, program(), content=damaged or b"\0"
        )
        trace = read(content)
        ran_nodes(content, trace.programs)
        ran_programs(content, trace.programs)
        found = [(row.start_ns, row.duration_ns) for row in trace.rows]
        # Damage may turn an instruction into a loop, which is no row.
        assert set(found) <= set(times)
        seen.add(len(found))

    assert max(seen) == len(times)


@pytest.mark.parametrize("source", ["recorded", "small"])
def test_a_damaged_capture_is_read_or_refused(source: str) -> None:
    """In the latter case with a reason."""
    if source == "recorded":
        whole = golden("frameworks", "jax_cpu_window_one_step.xplane.pb").read_bytes()
    else:
        whole = capture({"/host:CPU": {"pool/1": EVENTS, "pool/2": ENDS}}, program())

    for damaged in mutations(whole, 60 if source == "recorded" else 1500):
        try:
            trace = read(damaged)
            nodes, _ = ran_nodes(damaged, [*trace.programs, (MODULE, 0)])
            ran_programs(damaged, trace.programs)
        except UnreadableInput:
            continue
        assert len(trace.rows.duration_ns) == len(trace.rows.name)
        assert all(node.name for node in nodes.values())


def test_circles_of_computations_and_copies_end() -> None:
    """A program that calls itself has no end."""
    proto = fusion_of_jax(("add", "jit(f)/a/add"))
    fused = proto.hlo_module.computations[1]
    fused.instructions.add(name="again", opcode="fusion", called_computation_ids=[2, 1])
    entry = proto.hlo_module.computations[0]
    entry.instructions.add(name="loop", opcode="while", called_computation_ids=[1, 2])

    found = read_hlo(proto.SerializeToString()).instructions

    assert found["fusion.1"].fused == ("a/add",)


def test_a_cut_capture_is_one_paragraph(tmp_path, capsys) -> None:
    """Whoever reads a file that was not written to its end is told so."""
    whole = capture({"/host:CPU": {"pool/1": EVENTS}}, program())
    path = tmp_path / "cut.xplane.pb"
    for length in range(1, len(whole), 97):
        path.write_bytes(whole[:length])
        for view in ("op", "scope", "code", "breakdown"):
            status = main([view, str(path)])
            output = capsys.readouterr()
            assert "Traceback" not in output.err + output.out
            assert (status == 0) == (not output.err)


def test_a_program_of_another_name_is_not_taken() -> None:
    """Two programs may have instructions of one name: number and module must both be right."""
    content = capture({"/host:CPU": {"pool/1": [ran("MatMul.8", program_id=5)]}}, program())

    (row,) = read(content).rows

    assert row.name == "MatMul.8"
