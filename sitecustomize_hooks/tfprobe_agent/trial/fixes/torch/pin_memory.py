"""Put batches into memory from which an accelerator copies without help of a CPU."""

from tfprobe_agent.trial.fixes.calls import replace, without_errors

from .module_calls import uses_accelerator

MODULES = ("torch",)


def patch(name, module, value, note):
    """Set the option of each DataLoader when it is iterated over: by then the job has chosen its devices."""

    def look(loader):
        if loader.pin_memory:
            note.skipped("has pinned memory already")
        elif not uses_accelerator(module):
            note.skipped("no accelerator is used")
        elif any([tensor.is_cuda for tensor in getattr(loader.dataset, "tensors", ())]):
            note.skipped("its data is on the accelerator")
        else:
            loader.pin_memory = True
            note.applied()

    def around(original):
        guarded = without_errors(note, look)

        def iterate(self):
            guarded(self)
            return original(self)

        return iterate

    replace(module.utils.data.DataLoader, "__iter__", around)
