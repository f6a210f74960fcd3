"""Turn off the detection of anomalies, which keeps a traceback of each operation and looks for NaN in gradients."""

from tfprobe_agent.trial.fixes.calls import replace

MODULES = ("torch",)


def patch(name, module, value, note):
    """Replace the function through which all ways to turn it on go."""

    def around(original):
        def set_anomaly_enabled(mode, check_nan=True):
            if mode:
                note.applied()
            return original(False, check_nan)

        return set_anomaly_enabled

    replace(module, "set_anomaly_enabled", around)
