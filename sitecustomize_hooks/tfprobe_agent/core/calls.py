"""A profile function that adds up the own times of one thread's calls in a tree.

Each event names the frame that runs, so a call or return that the interpreter did not report (generators, greenlets,
methods made by pybind11 in Python 3.12) is noticed at the next event. Only names are kept, and code objects while the
watch lasts: no frame, argument or function of the job.
"""

import weakref
from os.path import dirname, join
from types import ModuleType

from tfprobe_agent.unpatched import UNPATCHED

from .guard import STATE, failed

# Deeper calls count as own time of their ancestor.
MAX_DEPTH = 64
# Bounds memory during a watch, to about 2 MB. Of the nodes at the end, the KEPT that took longest are written.
MAX_NODES = 4096
KEPT = 512
# Adding a new call takes 2 us; if it seems to take longer than this, something else had the processor.
MOST_NS = 50000
# Functions of libraries that the agent calls.
_CALLED_BY_US = frozenset(("basename", "trace_state_clean", "tree_leaves"))
# co_flags of a function that yields: CO_GENERATOR and CO_ASYNC_GENERATOR.
_YIELDS = 0x20 | 0x200
# Read the way `type` does: a class of the job may override attribute access.
_module_of = type.__dict__["__module__"].__get__
_qualified_name_of = type.__dict__["__qualname__"].__get__


class Node:
    """A function as called from one place. If it is written in C, `code` is None and `name` is set."""

    __slots__ = ("children", "code", "count", "depth", "function", "is_ours", "line", "name", "parent", "self_ns")

    def __init__(self, parent, code, name, function, line):
        self.parent = parent
        self.code = code
        self.name = name
        self.function = function  # file, first line, name, whether it yields
        self.line = line  # in the caller; of a root, whose call was not seen, the line that ran when it was first met
        self.depth = 0 if parent is None else parent.depth + 1
        self.is_ours = parent.is_ours if code is None else is_ours(code) or _is_called_by_us(parent, code)
        self.children = {}  # by (instruction of the caller, callee); the latest also by instruction alone
        self.count = 0
        self.self_ns = 0


def make_profile_function(frame, started_ns, allowance, begins_step, ended):
    """Return a profile function for the thread that runs `frame`, and a function that stops it and returns its data.

    The profile function removes itself and calls `ended(cut)` when the allowance is used up or the thread's last frame
    has returned; with `cut` False, when code of the agent is called for which `begins_step(code)` is true.
    """
    clock, getprofile, setprofile = UNPATCHED.monotonic_ns, UNPATCHED.getprofile, UNPATCHED.setprofile
    nodes, roots = [], {}
    codes, path = [], []  # what runs now, outermost first: code (None if written in C), and its node
    node = None
    last_ns, events, made_ns = started_ns, 0, 0
    limit = allowance.events
    is_over, cut = False, True

    # One function that makes no calls of the agent unless something new is met: it runs at each call of the job.
    def profile(frame, event, arg):
        nonlocal events, last_ns, node, is_over
        try:
            if is_over:
                if getprofile() is itself():
                    setprofile(None)
                return
            now_ns = clock()
            node.self_ns += now_ns - last_ns
            last_ns = now_ns
            events += 1
            if event == "call":
                back = frame.f_back
                if back is None:
                    take_up(frame)
                    return
                if codes[-1] is not None and codes[-1] is not back.f_code:
                    take_up(back)
                code = frame.f_code
                child = node.children.get(back.f_lasti)
                if child is None or child.code is not code:
                    child = called(code, back)
                else:
                    child.count += 1
                codes.append(code)
                path.append(child)
                node = child
            elif event == "return":
                if codes[-1] is frame.f_code and len(path) > 1:
                    codes.pop()
                    path.pop()
                    node = path[-1]
                else:
                    take_up(frame.f_back)
            elif event == "c_call":
                if codes[-1] is not frame.f_code:
                    take_up(frame)
                child = node.children.get(frame.f_lasti)
                if child is None or child.name != arg.__name__:
                    child = called_in_c(arg, frame)
                else:
                    child.count += 1
                codes.append(None)
                path.append(child)
                node = child
            else:
                if codes[-1] is None:
                    codes.pop()
                    path.pop()
                    node = path[-1]
                if codes[-1] is not frame.f_code:
                    take_up(frame)
            if events >= limit:
                is_over = True
                if getprofile() is itself():
                    setprofile(None)
                ended(cut)
        except Exception:
            is_over = True
            if getprofile() is itself():
                setprofile(None)
            failed("watching a gap", noting_only=True)
        except BaseException:  # Ctrl-C: the job's
            is_over = True
            raise

    def called(code, back):
        """Return the node for a call of a Python function, creating it at the first call from there."""
        began_ns = clock()
        key = back.f_lasti, id(code)
        child = node.children.get(key)
        if child is None:
            child = grow(key, code, None, function_of(code), 0 if codes[-1] is None else back.f_lineno or 0)
        return counted(child, key, began_ns)

    def called_in_c(function, frame):
        began_ns = clock()
        key = frame.f_lasti, function.__name__
        child = node.children.get(key)
        if child is None:
            child = grow(key, None, key[1], ("", 0, _name_in_c(function), False), frame.f_lineno or 0)
        return counted(child, key, began_ns)

    def counted(child, key, began_ns):
        nonlocal last_ns, limit, made_ns
        node.children[key[0]] = child  # a call site mostly calls what it called last
        if child is not node:
            child.count += 1
        last_ns = clock()  # the time to create a node counts for nobody
        made_ns += min(last_ns - began_ns, MOST_NS)
        if STATE.disabled or not STATE.noting or made_ns + events * allowance.event_ns > allowance.own_ns:
            limit = 0
        return child

    def grow(key, code, name, function, line):
        nonlocal cut, limit
        if node.depth >= MAX_DEPTH or len(nodes) >= MAX_NODES:
            return node
        child = node.children[key] = Node(node, code, name, function, line)
        nodes.append(child)
        if child.is_ours and code is not None and begins_step(code):
            cut, limit = False, 0
        return child

    def take_up(frame):
        """Continue at `frame`, which runs now: at its place among the open calls, or else as a new root."""
        nonlocal limit, node
        if frame is None:
            limit = 0
            return
        while codes:
            if codes[-1] is frame.f_code:
                node = path[-1]
                return
            codes.pop()
            path.pop()
        own_frames = []
        while frame is not None and is_ours(frame.f_code):
            own_frames.append(frame)
            frame = frame.f_back
        if frame is None and not nodes:  # a thread that entered Python by code of the agent
            frame = own_frames.pop()
        node = root_of(frame) if frame is not None else nodes[0]
        line = 0 if frame is None else frame.f_lineno or 0
        codes.append(node.code)
        path.append(node)
        for frame in reversed(own_frames):
            if len(nodes) < MAX_NODES:  # not among the children: a call from there is a different one
                node = Node(node, frame.f_code, None, function_of(frame.f_code), line)
                nodes.append(node)
            codes.append(frame.f_code)
            path.append(node)

    def root_of(frame):
        code = frame.f_code
        root = roots.get(id(code))
        if root is None:
            root = roots[id(code)] = Node(None, code, None, function_of(code), frame.f_lineno or 0)
            root.count = 1  # it ran once, although its call was not seen
            nodes.append(root)
        return root

    def settle(now_ns=None):
        """Stop; return the nodes, the number of events, and what creating nodes cost.

        The running function gets the time until `now_ns`, if it is known to have run that long.
        """
        nonlocal last_ns, is_over
        if now_ns is not None and not is_over:
            node.self_ns += now_ns - last_ns
            last_ns = now_ns
        is_over = True
        return nodes, events, made_ns

    itself = weakref.ref(profile)  # without a weak reference it would keep itself alive until a garbage collection
    take_up(frame)
    return profile, settle


def rows_of(nodes):
    """Return the calls and functions of gaps.jsonl. Nodes are unlinked, because they refer to each other."""
    calls, functions = [], {}
    row_of_node, line_of = {}, {}
    row_of = {}
    for node in nodes:
        parent = node.parent
        above = None if parent is None else row_of_node[id(parent)]
        line = line_of[id(node)] = line_of[id(parent)] if parent is not None and parent.is_ours else node.line
        if node.is_ours and above is not None:
            # the agent's own frames do not appear, nor does their time: it is not the job's
            row_of_node[id(node)] = above
            continue
        key = above, node.function, line
        row = row_of.get(key)
        if row is None:
            row = row_of[key] = len(calls)
            number = functions.setdefault(node.function, len(functions))
            calls.append([-1 if above is None else above, number, line, 0, 0])
        calls[row][3] += node.count
        calls[row][4] += node.self_ns
        row_of_node[id(node)] = row
    for node in nodes:
        node.parent = node.children = None
    return _longest(calls, [list(function) for function in functions])


def _longest(calls, functions):
    """Drop the shortest calls beyond KEPT; their own time goes to their callers."""
    if len(calls) <= KEPT:
        return calls, functions
    total_ns = [call[4] for call in calls]
    for index in range(len(calls) - 1, -1, -1):
        if calls[index][0] >= 0:
            total_ns[calls[index][0]] += total_ns[index]
    # A caller takes no less time than its callees and precedes them, so no kept call loses its caller.
    kept = set(sorted(range(len(calls)), key=lambda index: (calls[index][0] >= 0, -total_ns[index], index))[:KEPT])
    rows, row_of, used = [], {}, {}
    for index, (parent, function, line, count, self_ns) in enumerate(calls):
        above = row_of.get(parent, -1)
        if index not in kept:
            row_of[index] = above
            rows[above][4] += self_ns
            continue
        row_of[index] = len(rows)
        rows.append([above, used.setdefault(function, len(used)), line, count, self_ns])
    return rows, [functions[function] for function in used]


def is_ours(code):
    """Return whether code is the agent's own."""
    return code.co_filename.startswith(_HERE)


def _is_called_by_us(parent, code):
    """Return whether the agent itself calls a function of a library, rather than for the job."""
    return parent is not None and parent.is_ours and code.co_name in _CALLED_BY_US


def function_of(code):
    """Return what gaps.jsonl has of a Python function."""
    return code.co_filename, code.co_firstlineno, code.co_name, code.co_flags & _YIELDS != 0


def _name_in_c(function):
    """Return "module.name" of a function written in C, without running code of the job."""
    owner, name = function.__self__, function.__name__
    if owner is None or type(owner) is ModuleType:
        module = function.__module__
        return "%s.%s" % (module, name) if type(module) is str else name
    owner = owner if issubclass(type(owner), type) else type(owner)
    module = _module_of(owner)
    name = "%s.%s" % (_qualified_name_of(owner), name)
    return "%s.%s" % (module, name) if type(module) is str else name


_HERE = join(dirname(dirname(is_ours.__code__.co_filename)), "")
