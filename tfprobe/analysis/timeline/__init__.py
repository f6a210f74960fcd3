"""Lay out one recorded step to be drawn: what lies on which track, and how much detail fits."""
