"""Notice the servers that a job starts for its cluster: they say which rank this process is, with or without steps."""

from . import patching, ranks
from .guard import never_raise_noting
from .recorder import current


def patch(module):
    """Patch the class of servers where it is defined."""
    server = module.__dict__.get("Server")
    if isinstance(server, type):
        patching.patch_call(server, "__init__", _noted)


def _noted(original):
    def noted(self, *args, **kwargs):
        original(self, *args, **kwargs)
        _started(self)

    return noted


@never_raise_noting
def _started(server):
    """Tell of a server at once: a parameter server joins it next, and does nothing else till it is killed."""
    ranks.SERVERS.add(server.server_def)
    current().write_process()
