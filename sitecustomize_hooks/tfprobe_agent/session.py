"""The Session doors: `BaseSession.run`, `make_callable`, and the C++ callables under Keras' graph mode."""

import functools
import weakref
from hashlib import sha1

from . import door, graphs, patching, tracing
from .guard import failed
from .interruptions import leave_traceback
from .originals import ORIGINAL
from .recorder import current, find_named
from .threads import THREAD, remember

_CONTAINERS = (list, tuple, dict)
# Fetch names are shown up to this many characters; longer ones end in a digest that keeps works apart.
_NAME_LENGTH = 160
_ROLES = (("train_function", "fit"), ("test_function", "evaluate"), ("predict_function", "predict"))


def patch(module):
    """Patch the session classes in tensorflow.python.client.session."""
    base = module.BaseSession
    # Everything below calls the original methods, found before any of them is wrapped.
    doors = _Doors(module, base._make_callable_from_options)
    patching.patch_method(base, "run", door.make(_find_run, doors.trace_run, _notice_job_trace, by=1))
    patching.patch_method(base, "make_callable", _with_made(doors.wrap_made))
    patching.patch_method(base, "_make_callable_from_options", _with_made(doors.keep_options))
    patching.patch_method(base._Callable, "__call__", door.make(doors.find_callable, doors.trace_callable))


def patch_keras_backend(module):
    """Patch Keras' graph-mode function, so that a callable knows whether it trains, tests or predicts."""
    function = getattr(module, "GraphExecutionFunction", None)
    if function is not None:
        patching.patch_method(function, "__call__", _with_role)


def _with_made(use):
    """Return what replaces a method of a session that makes a callable, by one that returns what `use` does with it."""

    def around(original):
        def make(session, *args, **kwargs):
            try:
                made = original(session, *args, **kwargs)
            except BaseException as error:
                leave_traceback(error)
                raise
            try:
                return use(made, session, args, kwargs)
            except Exception:
                failed("making a callable")
            return made

        return make

    return around


def _with_role(original):
    def call(self, *args, **kwargs):
        mine = THREAD.mine
        outer = mine.role
        try:
            try:
                mine.role = _role_of(self)
                if mine.role is not None:
                    # Called outside of fit before, its callable may be known for no role: this call has one.
                    mine.known.pop(id(getattr(self, "_callable_fn", None)), None)
            except Exception:
                failed("entering a Keras function")
            return original(self, *args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise
        finally:
            mine.role = outer

    return call


def _role_of(function):
    """Return what a graph function is to the model this thread works on (some Keras drop the name it was given)."""
    model = THREAD.mine.phase.model() if THREAD.mine.phase is not None else None
    for attribute, role in _ROLES:
        if getattr(function, "name", None) == attribute or vars(model or _NoModel).get(attribute) is function:
            return role
    return None


class _NoModel:
    """Outside any Keras method."""


class _Doors:
    """The wrappers, and the originals they need."""

    def __init__(self, module, make_from_options):
        self.protos = module.config_pb2
        self.original_make = make_from_options
        self.callable_options = weakref.WeakKeyDictionary()
        self.twins = weakref.WeakKeyDictionary()

    def trace_run(self, work, why, original, args, kwargs):
        """Start a traced `Session.run`."""
        instance = args[0]
        given = dict(zip(("fetches", "feed_dict", "options", "run_metadata"), args[1:]))
        given.update(kwargs)
        return self._traced_run(work, instance, original, (instance,), given)

    def _traced_run(self, work, session, call, args, given):
        """Start `call`, a `Session.run` with these arguments, traced in place of what the job gave for it; or None."""
        options, metadata = given.get("options"), given.get("run_metadata")
        if self._decline(work, session, options, metadata):
            return None
        sample = _SessionSample(self.protos, work, session, call, args, given, metadata)
        given["options"] = sample.options_for(options)
        given["run_metadata"] = sample.metadata
        return sample

    def _decline(self, work, session, options, metadata):
        """Decline to trace a step whose trace TensorFlow or the job cannot bear; return whether it was declined."""
        why = None
        if options is not None and _traces(options):
            why = "the job traces this step itself"
        elif _debugs(options):
            why = "the job debugs this step"  # TensorFlow 1.15 aborts when it is to trace and to watch tensors at once
        elif metadata is not None and _collects_stats(session, options):
            why = "the job collects statistics of this step"
        if why is not None:
            current().declined(work, why)
        return why is not None

    def wrap_made(self, made, session, args, kwargs):
        """Wrap the function that `make_callable` returned in a door of its own."""
        given = dict(zip(("fetches", "feed_list", "accept_options"), args))
        given.update(kwargs)
        feed_list = given.get("feed_list")
        name = _name_of(given.get("fetches"))

        def find(mine, _args, _kwargs):
            work = find_named("callable", name)
            remember(id(made), made, work)
            return work

        def trace(work, _why, _original, args, kwargs):
            run = {name: kwargs.get(name) for name in ("options", "run_metadata")}
            run.update(fetches=given["fetches"], feed_dict=dict(zip(feed_list, args)) if feed_list else None)
            return self._traced_run(work, session, session.run, (), run)

        return functools.wraps(made)(door.make(find, trace, _notice_job_trace)(made, made))

    def keep_options(self, made, _session, args, kwargs):
        """Keep the options of a C++ callable; its traced twin is made from them when it is first sampled."""
        options = args[0] if args else kwargs["callable_options"]
        self.callable_options[made] = options.SerializeToString()
        return made

    def find_callable(self, mine, args, kwargs):
        """Return the Work of a C++ callable: a step of Keras where Keras says so."""
        if not args:
            return None
        instance = args[0]
        role, phase = mine.role, mine.phase
        key = id(instance) if role is None else (id(instance), role, phase and phase.kind)
        work = mine.known.get(key)
        if work is None:
            work = find_named(*self._describe_callable(instance, role, phase))
            remember(key, instance, work)
        return work

    def _describe_callable(self, instance, role, phase):
        if role is None:
            return "callable", self._callable_name(instance)
        kind = phase.kind if phase is not None and phase.kind.endswith("_on_batch") else role
        return kind, phase.name if phase is not None else self._callable_name(instance)

    def _callable_name(self, instance):
        options = self._options_of(instance)
        return _shorten(", ".join(list(options.fetch) + list(options.target))) if options is not None else "callable"

    def _options_of(self, instance):
        data = self.callable_options.get(instance)
        return None if data is None else self.protos.CallableOptions.FromString(data)

    def trace_callable(self, work, why, original, args, kwargs):
        """Start a call of the traced twin."""
        instance = args[0]
        options = self._options_of(instance)
        if options is None:
            current().declined(work, "made before the agent was armed")
            return None
        if self._decline(work, instance._session, options.run_options, kwargs.get("run_metadata")):
            return None
        session = instance._session
        given = dict(kwargs)
        sample = _SessionSample(self.protos, work, session, None, args[1:], given, kwargs.get("run_metadata"))
        sample.call = self._twin(instance, session, options, sample)
        given["run_metadata"] = sample.metadata
        return sample

    def _twin(self, instance, session, options, sample):
        """Return a callable like `instance` but traced; stateful kernels are shared, so it counts and draws as one."""
        began_ns = ORIGINAL.monotonic_ns()
        run_options = sample.options_for(options.run_options)
        key = (run_options.trace_level, run_options.output_partition_graphs)
        twins = self.twins.setdefault(instance, {})
        if key not in twins:
            options.run_options.CopyFrom(run_options)
            twins[key] = self.original_make(session, options)
            current().spent_once(ORIGINAL.monotonic_ns() - began_ns)
        return twins[key]


class _SessionSample(door.Sample):
    """A traced run: FULL_TRACE when TensorFlow's profiler is free, otherwise SOFTWARE_TRACE, which needs none."""

    def __init__(self, protos, work, session, call, args, kwargs, job_metadata):
        door.Sample.__init__(self, call, args, kwargs)
        self.protos = protos
        self.metadata = protos.RunMetadata()
        self.job_metadata = job_metadata
        self.job_options = None
        recorder = current()
        self.first = work.samples == 0
        self.graph = graphs.write_session_graph(recorder, session.graph)
        # A Python function inside the step may start a profiler and could not be kept waiting: the step waits for it.
        self.wants_full = recorder.config.trace_level == "full" and not self.graph.runs_python
        self.session_config = getattr(session, "_config", None)

    def feeds(self):
        # A callable is fed by position; the instance that stands first in other calls is no feed.
        by_name = self.kwargs.get("feed_dict")
        if by_name is not None:
            return by_name.values() if isinstance(by_name, dict) else (by_name,)
        return self.args if "fetches" not in self.kwargs else ()

    def options_for(self, job_options):
        """Return RunOptions like the job's own, traced; takes the profiler if that is possible."""
        self.job_options = job_options
        options = self.protos.RunOptions()
        if job_options is not None:
            options.CopyFrom(job_options)
        if self.first:
            options.output_partition_graphs = True  # what really ran after placement and grappler; once is enough
        self.level = "full" if self.wants_full and tracing.take_full(self) else "software"
        options.trace_level = options.FULL_TRACE if self.level == "full" else options.SOFTWARE_TRACE
        return options

    def finish(self, work, step, result):
        self.abandon()
        recorder = current()
        name = "%06d-%s-%d.run_metadata.pb" % (step, work.kind, work.index)
        size = recorder.journal.write_file(self.metadata.SerializeToString(), "captures", name)
        self._fill_job_metadata()
        graphs.write_code_maps(recorder)
        if recorder.journal.devices is None:
            graphs.note_devices(recorder, [device.device for device in self.metadata.step_stats.dev_stats])
        return name, size, self.graph.fingerprint

    def _fill_job_metadata(self):
        """Give the job the metadata that its own options would have given it: no trace that it did not ask for."""
        if self.job_metadata is None:
            return
        self.job_metadata.CopyFrom(self.metadata)
        self.job_metadata.ClearField("step_stats")
        if self.job_options is None or not self.job_options.output_partition_graphs:
            self.job_metadata.ClearField("partition_graphs")

    def abandon(self):
        tracing.give_back(self)


def _find_run(mine, args, kwargs):
    if not args:
        return None
    fetches = args[1] if len(args) > 1 else kwargs.get("fetches")
    if type(fetches) is dict and "caller" in fetches:
        fetches = fetches["caller"]  # a MonitoredSession: what its hooks fetch beside makes no other kind of step
    key = _key(fetches)
    work = mine.known.get(key)
    if work is None:
        work = find_named("session_run", _name_of(fetches))
        leaves = _leaves(fetches)
        if all(map(_is_stable, leaves)):
            remember(key, args[0], work, leaves)
    return work


def _key(fetches):
    """Return what tells these fetches from others without asking TensorFlow: the identities of the leaves."""
    if not isinstance(fetches, _CONTAINERS):
        return id(fetches)
    items = fetches.values() if isinstance(fetches, dict) else fetches
    return tuple([_key(item) if isinstance(item, _CONTAINERS) else id(item) for item in items])


def _leaves(fetches):
    kind = type(fetches)
    if kind is dict:
        fetches = fetches.values()
    elif kind is not list and not isinstance(fetches, tuple):
        return [fetches]
    return [leaf for item in fetches for leaf in _leaves(item)]


def _is_stable(leaf):
    """Tell whether a fetch is a graph element that lives as long as its graph, not an object made for one call."""
    return isinstance(leaf, str) or (hasattr(leaf, "graph") and hasattr(leaf, "name"))


def _name_of(fetches):
    return _shorten(", ".join(_leaf_name(leaf) for leaf in _leaves(fetches)) or "(nothing)")


def _leaf_name(leaf):
    if isinstance(leaf, str):
        return leaf
    name = getattr(leaf, "name", None)
    return name if isinstance(name, str) else type(leaf).__name__


def _shorten(name):
    if len(name) <= _NAME_LENGTH:
        return name
    return name[:_NAME_LENGTH] + "... " + sha1(name.encode("utf-8", "replace")).hexdigest()[:8]


def _traces(options):
    return getattr(options, "trace_level", 0) != 0


def _notice_job_trace(args, kwargs):
    """Make way for a step that the job traces itself; return what to call when it is over."""
    options = kwargs.get("options") if "options" in kwargs else args[3] if len(args) > 3 else None
    if options is None or not _traces(options):
        return None
    call = object()
    tracing.job_begins(call)
    return functools.partial(tracing.TRACING.job_calls.discard, call)


def _debugs(options):
    """Tell whether the options carry tfdbg's watches."""
    debug_options = getattr(options, "debug_options", None)
    return len(getattr(debug_options, "debug_tensor_watch_opts", ())) > 0


def _collects_stats(session, options):
    """Tell whether the job's own settings make TensorFlow fill the step statistics of its RunMetadata, untraced."""
    config = getattr(session, "_config", None)
    builds_cost_model = config is not None and config.graph_options.build_cost_model > 0
    return builds_cost_model or getattr(options, "report_tensor_allocations_upon_oom", False)
