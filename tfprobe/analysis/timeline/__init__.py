"""Lay out one traced step to be drawn: what lies on which track, and how much detail fits."""
