"""Say whether the allocator in the library `value` serves this process. The launcher has named it in LD_PRELOAD."""

from os.path import realpath

from tfprobe_agent.unpatched import read_file

# Is there already when a trial begins.
MODULES = ("os",)
_MAPS = "/proc/self/maps"
_MAX_BYTES = 16 << 20


def patch(name, module, value, note):
    """Look for the library among those that are loaded."""
    if not value:
        note.failed("needs a library")
    elif realpath(value).encode() in read_file(_MAPS, _MAX_BYTES):
        note.applied()
    else:
        note.skipped("%s is not loaded" % value)
