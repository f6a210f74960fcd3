"""Load the batches of map-style datasets in `value` other processes, which are kept, in the same order."""

import multiprocessing

from tfprobe_agent.trial.fixes.calls import after_init, without_errors

from .persistent_workers import keeper

MODULES = ("torch",)
_WORKERS = 2
# What PyTorch takes where a program gives workers alone.
_PREFETCH_FACTOR = 2


def patch(name, module, value, note):
    """Give each DataLoader workers that has none, when it is made."""
    data = module.utils.data
    keep = keeper(module, note)

    def look(loader):
        why = _why_not(loader, data)
        if why is not None:
            note.skipped(why)
            return
        loader.num_workers = _WORKERS if value is None else value
        if getattr(loader, "prefetch_factor", None) is None:
            loader.prefetch_factor = _PREFETCH_FACTOR
        keep(loader)
        note.applied()

    after_init(data.DataLoader, without_errors(note, look))


def _why_not(loader, data):
    """Return why a loader can have no workers, or None."""
    if loader.num_workers > 0:
        return "has workers already"
    if isinstance(loader.dataset, data.IterableDataset):
        return "each worker would give all data of an iterable dataset"
    if not all([_is_of_torch(sampler) for sampler in (loader.sampler, loader.batch_sampler)]):
        return "its sampler is the program's own, which would run ahead of the training"
    if any([getattr(tensor, "is_cuda", False) for tensor in getattr(loader.dataset, "tensors", ())]):
        return "its data is on the accelerator"
    method = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    if method != "fork":
        return "processes are started by %s here, for which the program must be written" % method
    if multiprocessing.current_process().daemon:
        return "this process may have no children"
    return None


def _is_of_torch(sampler):
    return sampler is None or type(sampler).__module__.partition(".")[0] == "torch"
