"""Say what in a recording costs time that can be saved: rules over results of the analysis."""
