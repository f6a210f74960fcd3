"""Keep the workers of a DataLoader from one epoch to the next."""

import sys

from tfprobe_agent.trial.fixes.calls import after_init, replace, without_errors

MODULES = ("torch",)
_LOADERS = "torch.utils.data.dataloader"


def patch(name, module, value, note):
    """Set the option of each DataLoader that has workers, when it is made."""
    keep = keeper(module, note)

    def look(loader):
        if not loader.num_workers:
            note.skipped("has no workers")
        elif loader.persistent_workers:
            note.skipped("keeps its workers already")
        else:
            keep(loader)
            note.applied()

    after_init(module.utils.data.DataLoader, without_errors(note, look))


def keeper(torch, note):
    """Return a function that has a DataLoader keep its workers, and draw in each epoch the seed of new ones.

    Where a program keeps its workers itself, they draw one seed less in each epoch but the first, so that from the
    second on the order of its data is another one.
    """
    kept = {}

    def draw(loader, first_iter):
        if not first_iter and kept.get(id(loader)) is loader:
            torch.empty((), dtype=torch.int64).random_(generator=loader.generator)

    def keep(loader):
        object.__setattr__(loader, "persistent_workers", True)  # a DataLoader refuses to be changed
        kept[id(loader)] = loader

    iterator = getattr(sys.modules[_LOADERS], "_MultiProcessingDataLoaderIter", None)
    if iterator is not None:
        replace(iterator, "_reset", lambda original: _around_reset(original, without_errors(note, draw)))
    return keep


def _around_reset(original, draw):
    def _reset(self, loader, first_iter=False):
        draw(loader, first_iter)
        return original(self, loader, first_iter)

    return _reset
