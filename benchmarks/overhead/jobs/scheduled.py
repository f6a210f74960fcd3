"""The profiler of PyTorch as one would use it by hand: steps 20 to 29, by a schedule."""

from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler


def scheduled(folder):
    """Return a session that writes its trace into this folder; its `step` ends a step."""
    return profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=17, warmup=3, active=10, repeat=1),
        on_trace_ready=tensorboard_trace_handler(folder),
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
    )
