"""The fixes that can be applied to a job from outside: one module each.

A module has `MODULES`, the names of the modules to patch, and `patch(name, module, value, note)`, called with each of
them once it has run and before steps are counted in it. `value` is what config.json gives for the fix.
"""

# The module of each fix, below this folder.
FIXES = {
    "function_step": "tensorflow.function_step",
    "reduce_retracing": "tensorflow.reduce_retracing",
    "run_eagerly_off": "keras.run_eagerly_off",
    "steps_per_execution": "keras.steps_per_execution",
    "tensors_for_numbers": "tensorflow.tensors_for_numbers",
}
