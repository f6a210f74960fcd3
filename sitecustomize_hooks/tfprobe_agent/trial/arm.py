"""Begin one arm of a trial: fixed seeds, the fixes of the arm, and a count of units that stops the job."""

import atexit
import os
import sys

from tfprobe_agent import boot, hooks
from tfprobe_agent.core import recorder
from tfprobe_agent.core.guard import STATE
from tfprobe_agent.interruptions import let_through

from . import losses, seeds, units
from .fixes import FIXES
from .notes import NOTES, Note

# Fixes that replace what they patch last, so that the others see the calls as these have changed them.
_OUTERMOST = frozenset(("run_eagerly_off",))


def begin(trial):
    """Apply what config.json says under "trial", before any framework is patched."""
    units.COUNTER.begin(trial)
    recorder.CURRENT.make_loop = units.TrialLoop
    patches = _Patches()
    seed = trial["seed"]
    seeds.begin(seed)
    for names, patch in seeds.patches(seed) + losses.LOSSES.patches():
        patches.add(names, patch)
    fixes = trial["fixes"]
    for fix in sorted(fixes, key=lambda fix: (fix in _OUTERMOST, fix)):
        _add_fix(patches, fix, fixes[fix])
    boot.watch(patches.by_module)
    hooks.PATCH_FIRST.append(patches.apply)
    patches.apply(None, None)
    atexit.register(units.at_exit)  # before the exit hooks of the recording: they run in reverse order
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=units.COUNTER.forget_parent)


def _add_fix(patches, fix, value):
    note = Note(fix)
    NOTES.append(note)
    if fix not in FIXES:
        note.failed("unknown fix")
    for path in FIXES.get(fix, "").split():
        _add_module(patches, path, value, note)


def _add_module(patches, path, value, note):
    module = __import__("tfprobe_agent.trial.fixes." + path, fromlist=["patch"])

    def patch(name, target):
        try:
            module.patch(name, target, value, note)
        except Exception as error:
            let_through()
            STATE.log.error("fix %s" % note.fix)
            note.failed("%s: %s" % (type(error).__name__, error))

    patches.add(module.MODULES, patch)


class _Patches:
    """What to call once each module has run. One that was being imported when the trial began is looked at later."""

    def __init__(self):
        self.by_module = {}

    def add(self, names, patch):
        """Call `patch(name, module)` once each of the modules with these names has run."""
        for name in names:
            self.by_module.setdefault(name, []).append(patch)

    def apply(self, name, module):
        """Patch a module that has just run, if any, and all that ran before this was asked for."""
        if name in self.by_module:
            self._patch(name, module)
        for other in list(self.by_module):
            imported = sys.modules.get(other)
            if imported is not None and not _is_being_imported(imported):
                self._patch(other, imported)

    def _patch(self, name, module):
        for patch in self.by_module.pop(name, ()):
            patch(name, module)


def _is_being_imported(module):
    return getattr(getattr(module, "__spec__", None), "_initializing", False)
