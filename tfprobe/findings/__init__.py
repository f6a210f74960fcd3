"""Say what of a recording costs time that could be won, by rules over named signals."""
