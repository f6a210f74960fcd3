"""Give Sessions other options than the program does; the program's own object stays as it is."""

from tfprobe_agent.trial.fixes import calls


def replace_options(module, note, changed):
    """Let each Session of `tensorflow.python.client.session` have `changed(config)`, unless that is None."""
    guarded = calls.without_errors(note, changed)

    def around(original):
        arguments = calls.Arguments(original)

        def initialize(*args, **kwargs):
            config = arguments.get("config", args, kwargs)
            other = None if config is None else guarded(config)
            if other is not None:
                args, kwargs = arguments.put("config", other, args, kwargs)
            original(*args, **kwargs)

        return initialize

    calls.replace(module.BaseSession, "__init__", around)


def copy_of(config):
    """Return a ConfigProto with the same options."""
    copied = type(config)()
    copied.CopyFrom(config)
    return copied
