"""Code that AutoGraph generated, traced back to the lines of the program.

TensorFlow maps the stacks of ops itself where it calls generated code; what `tf.autograph.to_graph` returned is called
by the program, and there, as in a profile function, the generated file is seen, which is deleted at exit. AutoGraph
keeps the maps with what it has converted; nothing is imported to read them.
"""

import sys
from os.path import basename
from weakref import WeakKeyDictionary

# What generated files are called: by TensorFlow 2.2 and later, and before.
_PREFIXES = ("__autograph_generated_file", "tmp")
# Where AutoGraph keeps what it has converted: by TensorFlow 2.3 and later, and before.
_CACHES = (("impl.api", ("_TRANSPILER", "_cache", "_cache")), ("impl.conversion", ("_CACHE", "_cache")))
_PACKAGES = ("tensorflow.python.autograph.", "tensorflow_core.python.autograph.")
# Generated code may be converted again.
_MOST_CONVERSIONS = 4


def sources_of(places):
    """Return (file, line, function) as written in the program for each such place; None for a line that is not."""
    if not _may_be_generated(place[0] for place in places):
        return list(places)
    sources = _sources()
    files = {file for file, _ in sources}
    return [_source(place, sources, files) for place in places]


def name_sources(calls, functions):
    """Let calls and functions of gaps.jsonl name lines of the program, in place."""
    if not _may_be_generated(function[0] for function in functions):
        return
    sources = _sources()
    files = {file for file, _ in sources}
    generated = [function[0] if function[0] in files else None for function in functions]
    for call in calls:
        file = None if call[0] < 0 else generated[calls[call[0]][1]]
        if file is not None:
            source = _source((file, call[2], ""), sources, files)
            call[2] = 0 if source is None else source[1]
    for function, file in zip(functions, generated):
        if file is not None:
            function[:3] = _first_source(function, sources, files) or function[:3]


def _may_be_generated(files):
    return any(basename(file).startswith(_PREFIXES) for file in files)


def _sources():
    """Return the places that generated lines stand for, by file and line."""
    sources = {}
    for converted in _converted():
        for generated, origin in (getattr(converted, "source_map", None) or {}).items():
            place = origin.loc.filename, origin.loc.lineno, origin.function_name
            sources[(generated.filename, generated.lineno)] = place
    return sources


def _converted():
    for package in _PACKAGES:
        for module, names in _CACHES:
            holder = sys.modules.get(package + module)
            for name in names:
                holder = getattr(holder, name, None)
            if isinstance(holder, WeakKeyDictionary):
                # Lists, which are made at once: another thread may convert something meanwhile.
                for entry in list(holder.data.values()):
                    for converted in list(entry.values()):
                        yield converted


def _source(place, sources, files):
    for _ in range(_MOST_CONVERSIONS):
        if place[0] not in files:
            return place
        source = sources.get(place[:2])
        if source is None:
            return None
        place = source[0], source[1], source[2] or place[2]
    return None


def _first_source(function, sources, files):
    """Return the place of a generated function, whose own first lines may stand for nothing that was written."""
    file, first, name = function[:3]
    lines = [line for known, line in sources if known == file and line >= first]
    return _source((file, min(lines), name), sources, files) if lines else None
