"""Each moment of a segment goes to the first who claims it, as counting ns by ns says."""

from __future__ import annotations

import random

import numpy as np

from tfprobe.analysis.breakdown.attribution import UNCLAIMED, Claims, charge_moments


def claims(*rows: tuple[int, int, int, int]) -> Claims:
    """Return claims of (segment, rank, from, to)."""
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return Claims(*columns)


def charged(lengths: list[int], *rows: tuple[int, int, int, int]) -> list[list[int]]:
    """Return for each ns of each segment who has it."""
    found = charge_moments(np.array(lengths, dtype=np.int64), claims(*rows))
    told: list[list[int]] = [[] for _ in lengths]
    for segment, rank, start_ns, end_ns in zip(*(each.tolist() for each in found), strict=True):
        assert len(told[segment]) == start_ns
        told[segment] += [rank] * (end_ns - start_ns)
    return told


def test_any_claims_are_charged_as_if_counted_one_by_one():
    """Overlapping, touching, empty, reaching over either end: stretches fill each segment."""
    rng = random.Random(7)
    for _ in range(200):
        lengths = [rng.randrange(12) for _ in range(rng.randrange(1, 5))]
        rows = [
            (
                rng.randrange(len(lengths)),
                rng.randrange(4),
                rng.randrange(-3, 14),
                rng.randrange(16),
            )
            for _ in range(rng.randrange(12))
        ]

        expected = [
            [
                min(
                    (r for s, r, low, high in rows if s == at and low <= ns < high),
                    default=UNCLAIMED,
                )
                for ns in range(length)
            ]
            for at, length in enumerate(lengths)
        ]

        assert charged(lengths, *rows) == expected


def test_what_lasts_to_the_end_of_a_segment_does_not_go_on_in_the_next():
    """Steps are strangers to each other, whatever was active when one ended."""
    assert charged([3, 3], (0, 0, 0, 3), (1, 1, 1, 3)) == [[0, 0, 0], [UNCLAIMED, 1, 1]]


def test_without_segments_there_is_nothing():
    """A run without captures has nothing to charge."""
    assert charged([]) == []


def test_segments_longer_than_all_numbers_together_are_charged():
    """Damaged times last for centuries, and several of them more than 63 bits hold."""
    longest = 2**62
    rows = ((0, 0, 0, longest), (1, 3, 5, longest), (2, 1, 0, 7))

    found = charge_moments(np.array([longest] * 3), claims(*rows))

    told = list(zip(*(each.tolist() for each in found), strict=True))
    assert told == [
        (0, 0, 0, longest),
        (1, UNCLAIMED, 0, 5),
        (1, 3, 5, longest),
        (2, 1, 0, 7),
        (2, UNCLAIMED, 7, longest),
    ]
