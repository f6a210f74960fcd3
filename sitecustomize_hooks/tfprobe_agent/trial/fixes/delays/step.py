"""Slow down the call that is a step, at its end. Its thread waits there for the framework, so the delay sleeps."""

from tfprobe_agent.trial.delays import delay_of

from .between import UNBROKEN

MODULES = ("tfprobe_agent.trial.units",)


def patch(name, module, value, note):
    """Follow the steps that are counted."""
    delay = delay_of("step", value, note)

    def stepped(loop):
        if loop.kind in UNBROKEN:
            note.skipped("a step of kind %s lasts until the next one begins: try input or between" % loop.kind)
        else:
            delay.lasted(loop.latest_ns(), 0)

    module.COUNTER.followers.append(stepped)
