"""What the recording asks of a framework, and which frameworks this process has imported.

Each folder of `frameworks/` has one object of this class. It is loaded when the job has imported a module that the
folder has targets in, so a job that uses one framework loads nothing for the others. Methods that are not overridden
say that there is nothing to do.
"""


class Framework:
    """A framework as the recording sees it."""

    name = ""  # as in process.json

    def patch(self, name, module):
        """Patch a target module that has just been imported."""

    def opens_recording(self, name):
        """Return whether a process that imports this module is recorded."""
        return False

    def version(self):
        """Return the framework's version without importing anything; None while it is not known."""

    def job_holds_profiler(self):
        """Return whether the job has a session of the framework's profiler."""
        return False

    def compiles_frames(self):
        """Return whether the framework looks at each Python function that begins, to compile it: ours as well."""
        return False

    def name_sources(self, calls, functions):
        """Replace lines of generated code by lines of the program, in calls and functions of gaps.jsonl, in place."""

    def finish(self, recorder):
        """Write what waited for the normal exit of the process, and wait for what must end before it."""

    def forget_parent(self):
        """Forget everything about the parent, in a forked child."""


# In the order in which the job imported them.
LOADED = []


def load(folder):
    """Return the object of a folder of `frameworks/`, importing it at the first call."""
    name = "tfprobe_agent.frameworks." + folder
    framework = __import__(name, fromlist=["FRAMEWORK"]).FRAMEWORK
    if framework not in LOADED:
        LOADED.append(framework)
    return framework


def is_loaded(folder):
    """Return whether the job has imported what a folder of `frameworks/` knows, and it is recorded."""
    return any([framework.name == folder for framework in list(LOADED)])


def versions():
    """Return the versions of the frameworks that are loaded, by name."""
    return {framework.name: framework.version() for framework in list(LOADED)}
