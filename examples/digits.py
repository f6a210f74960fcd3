"""Small grey images of the ten digits, 28x28 pixels like MNIST. Nothing is downloaded.

scikit-learn ships 1,797 real scanned digits. If it is not installed, ten drawn glyphs with noise
are used instead.
"""

import numpy as np

GLYPHS = (
    "0110 1001 1001 1001 1001 0110",
    "0010 0110 0010 0010 0010 0111",
    "0110 1001 0001 0010 0100 1111",
    "1110 0001 0110 0001 0001 1110",
    "0010 0110 1010 1111 0010 0010",
    "1111 1000 1110 0001 0001 1110",
    "0110 1000 1110 1001 1001 0110",
    "1111 0001 0010 0010 0100 0100",
    "0110 1001 0110 1001 1001 0110",
    "0110 1001 1001 0111 0001 0110",
)


def load():
    """Return (images, labels): float32 (n, 28, 28) in 0..1, and int32 (n,)."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        return drawn(1797)
    digits = load_digits()
    return _to_28x28(digits.images / 16.0), digits.target.astype(np.int32)


def drawn(count, seed=0):
    """Return `count` noisy drawings of the glyphs, shifted by up to one pixel."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, 10, size=count)
    glyphs = np.zeros((10, 8, 8))
    for digit, rows in enumerate(GLYPHS):
        glyphs[digit, 1:7, 2:6] = [[int(pixel) for pixel in row] for row in rows.split()]
    images = np.stack(
        [np.roll(glyphs[label], random.randint(-1, 2, size=2), axis=(0, 1)) for label in labels]
    )
    images = np.clip(images + random.normal(0, 0.15, size=images.shape), 0, 1)
    return _to_28x28(images), labels.astype(np.int32)


def batches(images, labels, size, seed=0):
    """Yield shuffled batches of `size` forever."""
    random = np.random.RandomState(seed)
    while True:
        order = random.permutation(len(images))
        for start in range(0, len(order) - size + 1, size):
            chosen = order[start : start + size]
            yield images[chosen], labels[chosen]


def _to_28x28(images):
    enlarged = images.repeat(3, axis=1).repeat(3, axis=2)
    return np.pad(enlarged, ((0, 0), (2, 2), (2, 2)), mode="constant").astype(np.float32)
