"""Quantiles of Student's t, also of degrees of freedom that are no whole number."""

from __future__ import annotations

import math

# The continued fraction converges within a few dozen terms; this is to end in any case.
_MOST_TERMS = 300
_TINY = 1e-300
_HALVINGS = 60


def quantile(confidence: float, degrees: float) -> float:
    """Return the t beyond which, on either side, 1 - `confidence` of the distribution lies."""
    low, high = 0.0, 1.0
    while _within(high, degrees) < confidence and high < 1e12:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < confidence else (low, middle)
    return high


def _within(t: float, degrees: float) -> float:
    """Return how much of the distribution lies between -t and t."""
    return 1 - _incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5)


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function (Abramowitz and Stegun 26.5.8)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    log_front += a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) / (a * _continued_fraction(x, a, b))


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Return the denominator of the continued fraction by Lentz's method."""
    c, d = 1.0, 0.0
    found = 1.0
    for term in range(1, _MOST_TERMS):
        half = term // 2
        if term % 2:
            factor = -(a + half) * (a + b + half) * x / ((a + term - 1) * (a + term))
        else:
            factor = half * (b - half) * x / ((a + term - 1) * (a + term))
        d = 1 / _not_zero(1 + factor * d)
        c = _not_zero(1 + factor / c)
        found *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return found


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
