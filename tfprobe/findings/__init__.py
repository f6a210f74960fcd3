"""Say what in a recording costs time that could be saved, by rules over results of the analysis."""
