"""Keep the workers of a DataLoader from one epoch to the next."""

import sys

from tfprobe_agent.trial.fixes.calls import after_init, replace, without_errors

MODULES = ("torch",)
_LOADERS = "torch.utils.data.dataloader"


def patch(name, module, value, note):
    """Set the option of each DataLoader that has workers, when it is made."""

    def look(loader):
        if not loader.num_workers:
            note.skipped("has no workers")
        elif loader.persistent_workers:
            note.skipped("keeps its workers already")
        else:
            object.__setattr__(loader, "persistent_workers", True)  # a DataLoader refuses to be changed
            changed[id(loader)] = loader
            note.applied()

    def draw(loader, first_iter):
        """Draw the seed of workers that are not started anew, so that what is drawn next is the same."""
        if not first_iter and changed.get(id(loader)) is loader:
            module.empty((), dtype=module.int64).random_(generator=loader.generator)

    changed = {}
    after_init(module.utils.data.DataLoader, without_errors(note, look))
    iterator = getattr(sys.modules[_LOADERS], "_MultiProcessingDataLoaderIter", None)
    if iterator is not None:
        replace(iterator, "_reset", lambda original: _around_reset(original, without_errors(note, draw)))


def _around_reset(original, draw):
    def _reset(self, loader, first_iter=False):
        draw(loader, first_iter)
        return original(self, loader, first_iter)

    return _reset
