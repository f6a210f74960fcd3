"""Store the weights of convolutions with channels last, as kernels of accelerators read them fastest."""

from tfprobe_agent.trial.fixes.calls import without_errors

from .module_calls import watch_training

MODULES = ("torch",)


def patch(name, module, value, note):
    """Convert each module that a training step calls before its first call. Its inputs follow its weights."""

    def found(model):
        weights = [parameter for parameter in model.parameters() if parameter.dim() == 4]
        if not weights:
            note.skipped("has no convolution in two dimensions")
        elif not all([weight.is_cuda for weight in weights]):
            note.skipped("runs on a CPU")
        elif all([weight.is_contiguous(memory_format=module.channels_last) for weight in weights]):
            note.skipped("has channels last already")
        else:
            model.to(memory_format=module.channels_last)
            note.applied()

    watch_training(module, without_errors(note, found))
