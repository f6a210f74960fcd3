"""Tell whether a change lies in some pieces of a step, or in all of them alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfprobe.errors import Missing
from tfprobe.views.breakdown.parts import Part
from tfprobe.views.diff.compare import Change
from tfprobe.views.diff.ops import CostChange, OpChanges
from tfprobe.views.diff.step_times import StepChange

# A piece of less of the whole is no witness of anything.
LEAST_SHARE_RATIO = 0.1
# One piece of more is the whole: nothing is left to compare it with.
MOST_SHARE_RATIO = 0.8
# A change is concentrated where the pieces that changed less grew by at most this part of it.
OTHERS_GROWTH_RATIO = 0.5
# And alike where at most this part of it would not be there if all had changed by one factor.
ALIKE_RATIO = 0.25


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a whole, in ns; `change` says how sure its change is, if that is known."""

    name: str
    before_ns: float
    after_ns: float
    change: Change | Missing

    @property
    def is_one_sided(self) -> bool:
        """Say whether only one of the recordings has it."""
        return not self.before_ns or not self.after_ns


@dataclass(frozen=True, slots=True)
class Shape:
    """How the change of a whole lies in its pieces.

    `excess_ratio` is the part of the change that would not be there if all had changed alike;
    `most` is the piece with most of that. `others_growth_ratio` is the growth of the pieces that
    changed less than the whole; `witness` is the largest of them that surely did.
    """

    of: str
    growth_ratio: float
    others_growth_ratio: float
    excess_ratio: float
    largest_share_ratio: float
    most: Piece
    witness: Piece | None
    is_one_way: bool

    @property
    def is_concentrated(self) -> bool:
        """Say whether most of the change lies in one piece, while another has hardly changed."""
        change = self.most.change
        is_sure = self.most.is_one_sided or (
            isinstance(change, Change)
            and change.is_significant
            and change.ratio * self.growth_ratio > 0
        )
        few = self.others_growth_ratio / self.growth_ratio <= OTHERS_GROWTH_RATIO
        return few and is_sure and self.witness is not None

    @property
    def is_alike(self) -> bool:
        """Say whether every piece changed by about the same factor."""
        has_others = self.largest_share_ratio <= MOST_SHARE_RATIO
        return has_others and self.is_one_way and self.excess_ratio <= ALIKE_RATIO


def shape(of: str, pieces: Sequence[Piece]) -> Shape | Missing:
    """Return how the change of a whole lies in its pieces, which together are the whole."""
    whole_ns = sum(piece.before_ns for piece in pieces)
    delta_ns = sum(piece.after_ns - piece.before_ns for piece in pieces)
    if len(pieces) < 2 or not whole_ns or not delta_ns:
        return Missing("there are no pieces to compare")
    growth = delta_ns / whole_ns
    excess_ns = {
        piece.name: (piece.after_ns - piece.before_ns * (1 + growth)) / delta_ns for piece in pieces
    }
    others = [piece for piece in pieces if excess_ns[piece.name] <= 0]
    large = [piece for piece in pieces if piece.before_ns >= LEAST_SHARE_RATIO * whole_ns]
    witnesses = [piece for piece in large if _changed_less(piece, growth)]
    return Shape(
        of=of,
        growth_ratio=growth,
        others_growth_ratio=_growth(others),
        excess_ratio=sum(excess for excess in excess_ns.values() if excess > 0),
        largest_share_ratio=max(piece.before_ns for piece in pieces) / whole_ns,
        most=max(pieces, key=lambda piece: excess_ns[piece.name]),
        witness=max(witnesses, key=lambda piece: piece.before_ns, default=None),
        is_one_way=all((piece.after_ns - piece.before_ns) * delta_ns > 0 for piece in large),
    )


def _growth(pieces: Sequence[Piece]) -> float:
    before_ns = sum(piece.before_ns for piece in pieces)
    return sum(piece.after_ns for piece in pieces) / before_ns - 1 if before_ns else 0.0


def _changed_less(piece: Piece, growth: float) -> bool:
    change = piece.change
    if not isinstance(change, Change):
        return False
    return change.high_ratio < growth if growth > 0 else change.low_ratio > growth


def of_cycle(steps: StepChange) -> Shape | Missing:
    """Return the shape of a change by steps and gaps, of which there are many."""
    changes = (("the step", steps.step), ("the time between steps", steps.gap))
    pieces = [
        Piece(name, change.before, change.after, change)
        for name, change in changes
        if isinstance(change, Change)
    ]
    return shape("cycle", pieces)


def of_parts(parts: Sequence[CostChange] | Missing) -> Shape | Missing:
    """Return the shape of a change by the parts of traced steps, without what tracing took."""
    if isinstance(parts, Missing):
        return parts
    return shape("parts", _pieces(part for part in parts if part.name != Part.RECORDING.value))


def of_ops(ops: OpChanges | Missing) -> Shape | Missing:
    """Return the shape of a change by types of op."""
    return ops if isinstance(ops, Missing) else shape("ops", _pieces(ops.types))


def _pieces(costs: Iterable[CostChange]) -> list[Piece]:
    """Return the levels of what was compared, and the means of what only one side has.

    What there were too few samples of is left out: means of a few tell nothing.
    """
    found = []
    for cost in costs:
        if isinstance(cost.change, Change):
            found.append(Piece(cost.name, cost.change.before, cost.change.after, cost.change))
        elif cost.before_ns is None or cost.after_ns is None:
            found.append(Piece(cost.name, cost.before_ns or 0, cost.after_ns or 0, cost.change))
    return found
