"""Let TensorFlow choose the layout of images, as it does unless a program switches that off."""

from tfprobe_agent.trial.fixes import calls
from tfprobe_agent.trial.fixes.devices import has_gpu

from .session_options import copy_of, replace_options

_CONTEXT = "tensorflow.python.eager.context"
_SESSION = "tensorflow.python.client.session"
MODULES = (_CONTEXT, _SESSION)
_OPTION = "layout_optimizer"
# Values of RewriterConfig.Toggle.
_ON, _OFF = 1, 2


def patch(name, module, value, note):
    """Replace what takes the options of a program. Without a GPU no layout is changed."""
    if not has_gpu():
        note.skipped("there is no GPU")
    elif name == _CONTEXT:
        calls.replace(module.Context, "set_optimizer_experimental_options", lambda original: _set(original, note))
    else:
        replace_options(module, note, lambda config: _config(config, note))


def _set(original, note):
    def set_options(self, options):
        if options.get(_OPTION) is False:
            options = dict(options, **{_OPTION: True})
            note.applied()
        return original(self, options)

    return set_options


def _config(config, note):
    """Return a copy of a ConfigProto with the option; None if it does not switch it off."""
    if config.graph_options.rewrite_options.layout_optimizer != _OFF:
        return None
    changed = copy_of(config)
    changed.graph_options.rewrite_options.layout_optimizer = _ON
    note.applied()
    return changed
