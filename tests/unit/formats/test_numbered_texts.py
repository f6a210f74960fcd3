"""Texts have the same number whenever they come again, and none has another's."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tfprobe.formats.wire import Buffer, Extents, NumberedTexts, OtherForm


def written(*texts):
    """Return a buffer with these texts, and where they are."""
    ends = np.cumsum([len(each) for each in texts], dtype=np.int64)
    starts = ends - np.array([len(each) for each in texts], dtype=np.int64)
    return Buffer(texts), Extents(starts, ends)


def test_equal_texts_have_one_number_and_others_another():
    """Of any length: empty, of whole words, with a zero at the end, and longer than are hashed."""
    rng = random.Random(3)
    known = [b"", b"\0", b"a", b"a\0", b"layer_1", b"layer_12", b"layer_12\0", b"x" * 128]
    known += [b"x" * 129, b"y" + b"x" * 200, b"x" * 200, b"x" * 199 + b"y"]
    known += [f"scope_{at}/{'n' * (at % 40)}".encode() for at in range(3000)]
    numbered, by_text = NumberedTexts(), {}

    for _ in range(3):
        texts = [rng.choice(known) for _ in range(5000)]
        for text, number in zip(texts, numbered.numbers(*written(*texts)).tolist(), strict=True):
            assert by_text.setdefault(text, number) == number

    assert len(set(by_text.values())) == len(by_text)


def test_none_of_no_texts_has_a_number():
    """A device without nodes has no names."""
    assert len(NumberedTexts().numbers(*written())) == 0


def test_what_is_no_text_is_refused():
    """Names are UTF-8."""
    with pytest.raises(OtherForm):
        NumberedTexts().numbers(*written(b"a", b"\xff"))
