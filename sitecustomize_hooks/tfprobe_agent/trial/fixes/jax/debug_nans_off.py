"""Turn off the search for NaN and infinite numbers, which waits for the results of each function."""

from tfprobe_agent.trial.fixes.calls import replace

MODULES = ("jax",)
_OPTIONS = ("jax_debug_nans", "jax_debug_infs")


def patch(name, module, value, note):
    """Unset the options, and refuse to set them."""
    config = module.config
    for option in _OPTIONS:
        if getattr(config, option):
            config.update(option, False)
            note.applied()

    def around(original):
        def update(self, option, setting):
            if option in _OPTIONS and setting:
                note.applied()
                setting = False
            return original(self, option, setting)

        return update

    def around_region(original):
        def region(setting):
            if setting:
                note.applied()
            return original(False)

        return region

    replace(type(config), "update", around)
    for option in _OPTIONS:
        replace(module, option[len("jax_") :], around_region)
