"""Divide the time of traced steps into parts: before, on and after the accelerator, and other.

A step's *cycle* is the step and the time of its thread up to the next step. Parts do not overlap
and sum to the cycle to the ns. docs/breakdown.md defines them. Read in this order:

 step_parts      the parts, and which part each op row belongs to
 attribution     which part each moment of a traced step is charged to
 step_breakdown  a traced step, divided
 gap_calls       which part each call between two steps belongs to
 gap_breakdown   the time between two steps, divided
 cycles          both joined: for each step, each loop and the run
 python_lines    the lines of the job between two steps
"""
