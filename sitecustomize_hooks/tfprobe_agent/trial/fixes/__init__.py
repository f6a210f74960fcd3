"""The fixes that can be applied to a job from outside: one module each.

A module has `MODULES`, the names of the modules to patch, and `patch(name, module, value, note)`, called with each of
them once it has run and before steps are counted in it. `value` is what config.json gives for the fix.
"""

# The module of each fix, below this folder; where several frameworks have it, their modules, separated by spaces.
FIXES = {
    "allocator": "process.allocator",
    "anomaly_off": "torch.anomaly_off",
    "autocast_bf16": "torch.autocast_bf16",
    "cache": "tensorflow.cache",
    "callbacks_every": "keras.callbacks_every",
    "channels_last": "torch.channels_last",
    "compilation_cache": "jax.compilation_cache",
    "compile_model": "torch.compile_model",
    "cudnn_benchmark": "torch.cudnn_benchmark",
    "dataloader_workers": "torch.dataloader_workers",
    "debug_nans_off": "jax.debug_nans_off",
    "delay_between": "delays.between",
    "delay_input": "delays.input",
    "delay_step": "delays.step",
    "donate_arguments": "jax.donate_arguments",
    "foreach_optimizer": "torch.foreach_optimizer",
    "function_step": "tensorflow.function_step",
    "fused_optimizer": "torch.fused_optimizer",
    "gpu_threads": "tensorflow.gpu_threads",
    "jit_compile": "keras.jit_compile",
    "jit_step": "jax.jit_step",
    "layout_optimizer": "tensorflow.layout_optimizer",
    "matmul_precision": "jax.matmul_precision torch.matmul_precision",
    "parallel_map": "tensorflow.parallel_map",
    "persistent_workers": "torch.persistent_workers",
    "pin_memory": "torch.pin_memory",
    "predict_direct": "keras.predict_direct",
    "prefetch": "tensorflow.prefetch",
    "reduce_retracing": "tensorflow.reduce_retracing",
    "run_eagerly_off": "keras.run_eagerly_off",
    "save_every": "tensorflow.save_every torch.save_every",
    "steps_per_execution": "keras.steps_per_execution",
    "summaries_every": "tensorflow.summaries_every",
    "tensors_for_numbers": "tensorflow.tensors_for_numbers",
    "threads": "tensorflow.threads torch.threads",
    "zero_grad_to_none": "torch.zero_grad_to_none",
}
