"""Divide the time of traced steps: before, on and after the accelerator, and what else there is.

A step's *cycle* is the step and the time of its thread up to the next one. Parts are exclusive and
sum to the cycle to the ns. docs/breakdown.md has the definitions. `step_breakdown` divides steps,
`gap_breakdown` the time between them, `cycles` joins both, `breakdown_totals` sums up a run.
"""
