"""The Session wrappers: `BaseSession.run`, `make_callable`, and the C++ callables under Keras' graph mode."""

import functools
import weakref
from hashlib import sha1

from tfprobe_agent import patching
from tfprobe_agent.core import step_wrapper, tracing
from tfprobe_agent.core.guard import failed
from tfprobe_agent.core.recorder import current_recorder, find_named
from tfprobe_agent.core.threads import THREAD, cache_loop
from tfprobe_agent.interruptions import leave_traceback
from tfprobe_agent.unpatched import UNPATCHED

from . import graphs
from .settings import TensorFlowStep

_CONTAINERS = (list, tuple, dict)
# Fetch names are cut to this many characters; longer ones end in a digest that keeps loops apart.
_NAME_LENGTH = 160
_ROLES = (("train_function", "fit"), ("test_function", "evaluate"), ("predict_function", "predict"))


def patch(module):
    """Patch the session classes in tensorflow.python.client.session."""
    base = module.BaseSession
    # Everything below calls the original methods, looked up before any of them is wrapped.
    wrappers = _SessionWrappers(module, base._make_callable_from_options)
    patching.patch_method(base, "run", step_wrapper.make(_find_run, wrappers.trace_run, _observe_job_trace, by=1))
    patching.patch_method(base, "make_callable", _with_made(wrappers.wrap_made))
    patching.patch_method(base, "_make_callable_from_options", _with_made(wrappers.keep_options))
    patching.patch_method(
        base._Callable, "__call__", step_wrapper.make(wrappers.find_callable, wrappers.trace_callable)
    )


def patch_keras_backend(module):
    """Patch Keras' graph-mode function, so that a callable knows whether it trains, tests or predicts."""
    function = getattr(module, "GraphExecutionFunction", None)
    if function is not None:
        patching.patch_method(function, "__call__", _with_role)


def _with_made(use):
    """Return a decorator for session methods that make a callable; the new one returns what `use` makes of that."""

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
        current = THREAD.current
        outer = current.role
        try:
            try:
                current.role = _role_of(self)
                if current.role is not None:
                    # Called outside of fit before, its callable may be cached without a role: this call has one.
                    current.loop_cache.pop(id(getattr(self, "_callable_fn", None)), None)
            except Exception:
                failed("entering a Keras function")
            return original(self, *args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise
        finally:
            current.role = outer

    return call


def _role_of(function):
    """Return the role of a graph function in this thread's model (some Keras drop the name it was given)."""
    model = THREAD.current.phase.model() if THREAD.current.phase is not None else None
    for attribute, role in _ROLES:
        if getattr(function, "name", None) == attribute or vars(model or _NoModel).get(attribute) is function:
            return role
    return None


class _NoModel:
    """Stands for the model outside any Keras method."""


class _SessionWrappers:
    """The wrappers, and the original functions they need."""

    def __init__(self, module, make_from_options):
        self.protos = module.config_pb2
        self.original_make = make_from_options
        self.callable_options = weakref.WeakKeyDictionary()
        self.twins = weakref.WeakKeyDictionary()

    def trace_run(self, loop, why, original, args, kwargs):
        """Start a traced `Session.run`."""
        instance = args[0]
        given = dict(zip(("fetches", "feed_dict", "options", "run_metadata"), args[1:]))
        given.update(kwargs)
        return self._traced_run(loop, instance, original, (instance,), given)

    def _traced_run(self, loop, session, call, args, given):
        """Start `call`, a `Session.run` with these arguments, traced in place of the job's options; or return None."""
        options, metadata = given.get("options"), given.get("run_metadata")
        if self._decline(loop, session, options, metadata):
            return None
        traced = _TracedSessionStep(self.protos, loop, session, call, args, given, metadata)
        given["options"] = traced.options_for(options)
        given["run_metadata"] = traced.metadata
        return traced

    def _decline(self, loop, session, options, metadata):
        """Decline to trace a step if TensorFlow or the job could not bear it; return whether it was declined."""
        why = None
        if options is not None and _traces(options):
            why = "the job traces this step itself"
        elif _debugs(options):
            why = "the job debugs this step"  # TensorFlow 1.15 aborts when it is to trace and to watch tensors at once
        elif metadata is not None and _collects_stats(session, options):
            why = "the job collects statistics of this step"
        if why is not None:
            current_recorder().declined(loop, why)
        return why is not None

    def wrap_made(self, made, session, args, kwargs):
        """Wrap the function that `make_callable` returned in a step wrapper of its own."""
        given = dict(zip(("fetches", "feed_list", "accept_options"), args))
        given.update(kwargs)
        feed_list = given.get("feed_list")
        name = _name_of(given.get("fetches"))

        def find(current, _args, _kwargs):
            loop = find_named("callable", name)
            cache_loop(id(made), made, loop)
            return loop

        def trace(loop, _why, _original, args, kwargs):
            run = {name: kwargs.get(name) for name in ("options", "run_metadata")}
            run.update(fetches=given["fetches"], feed_dict=dict(zip(feed_list, args)) if feed_list else None)
            return self._traced_run(loop, session, session.run, (), run)

        return functools.wraps(made)(step_wrapper.make(find, trace, _observe_job_trace)(made, made))

    def keep_options(self, made, _session, args, kwargs):
        """Keep the options of a C++ callable; its traced twin is made from them when it is first traced."""
        options = args[0] if args else kwargs["callable_options"]
        self.callable_options[made] = options.SerializeToString()
        return made

    def find_callable(self, current, args, kwargs):
        """Return the Loop of a C++ callable: a step of Keras if Keras calls it."""
        if not args:
            return None
        instance = args[0]
        role, phase = current.role, current.phase
        key = id(instance) if role is None else (id(instance), role, phase and phase.kind)
        loop = current.loop_cache.get(key)
        if loop is None:
            loop = find_named(*self._describe_callable(instance, role, phase))
            cache_loop(key, instance, loop)
        return loop

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

    def trace_callable(self, loop, why, original, args, kwargs):
        """Start a call of the traced twin."""
        instance = args[0]
        options = self._options_of(instance)
        if options is None:
            current_recorder().declined(loop, "created before the agent was installed")
            return None
        if self._decline(loop, instance._session, options.run_options, kwargs.get("run_metadata")):
            return None
        session = instance._session
        given = dict(kwargs)
        traced = _TracedSessionStep(self.protos, loop, session, None, args[1:], given, kwargs.get("run_metadata"))
        traced.call = self._twin(instance, session, options, traced)
        given["run_metadata"] = traced.metadata
        return traced

    def _twin(self, instance, session, options, traced):
        """Return a callable like `instance` but traced; stateful kernels are shared, so it counts and draws as one."""
        began_ns = UNPATCHED.monotonic_ns()
        run_options = traced.options_for(options.run_options)
        key = (run_options.trace_level, run_options.output_partition_graphs)
        twins = self.twins.setdefault(instance, {})
        if key not in twins:
            options.run_options.CopyFrom(run_options)
            twins[key] = self.original_make(session, options)
            current_recorder().spent_once(UNPATCHED.monotonic_ns() - began_ns)
        return twins[key]


class _TracedSessionStep(TensorFlowStep):
    """A traced run: FULL_TRACE if TensorFlow's profiler is free, otherwise SOFTWARE_TRACE, which needs none."""

    def __init__(self, protos, loop, session, call, args, kwargs, job_metadata):
        TensorFlowStep.__init__(self, call, args, kwargs)
        self.protos = protos
        self.metadata = protos.RunMetadata()
        self.job_metadata = job_metadata
        self.job_options = None
        recorder = current_recorder()
        self.first = loop.traced_steps == 0
        self.graph = graphs.write_session_graph(recorder, session.graph)
        # A Python function inside the step may start a profiler and could not be kept waiting: the step waits for it.
        self.wants_full = recorder.config.trace_level == "full" and not self.graph.runs_python
        self.session_config = getattr(session, "_config", None)

    def feeds(self):
        # A callable is fed by position; the instance that comes first in other calls is no feed.
        by_name = self.kwargs.get("feed_dict")
        if by_name is not None:
            return by_name.values() if isinstance(by_name, dict) else (by_name,)
        return self.args if "fetches" not in self.kwargs else ()

    def options_for(self, job_options):
        """Return RunOptions like the job's own, traced; take the profiler if possible."""
        self.job_options = job_options
        options = self.protos.RunOptions()
        if job_options is not None:
            options.CopyFrom(job_options)
        if self.first:
            options.output_partition_graphs = True  # what really ran after placement and grappler; once is enough
        self.level = "full" if self.wants_full and tracing.take_full(self) else "software"
        options.trace_level = options.FULL_TRACE if self.level == "full" else options.SOFTWARE_TRACE
        return options

    def finish(self, loop, step, result):
        self.abandon()
        recorder = current_recorder()
        name = "%06d-%s-%d.run_metadata.pb" % (step, loop.kind, loop.index)
        size = recorder.process_dir.write_file(self.metadata.SerializeToString(), "captures", name)
        self._fill_job_metadata()
        graphs.write_code_maps(recorder)
        if recorder.process_dir.devices is None:
            graphs.note_devices(recorder, [device.device for device in self.metadata.step_stats.dev_stats])
        return name, size, self.graph.fingerprint

    def _fill_job_metadata(self):
        """Give the job the metadata that its own options would have given it, without a trace it did not ask for."""
        if self.job_metadata is None:
            return
        self.job_metadata.CopyFrom(self.metadata)
        self.job_metadata.ClearField("step_stats")
        if self.job_options is None or not self.job_options.output_partition_graphs:
            self.job_metadata.ClearField("partition_graphs")

    def abandon(self):
        tracing.give_back(self)


def _find_run(current, args, kwargs):
    if not args:
        return None
    fetches = args[1] if len(args) > 1 else kwargs.get("fetches")
    if type(fetches) is dict and "caller" in fetches:
        fetches = fetches["caller"]  # a MonitoredSession: what its hooks fetch in addition makes no other kind of step
    key = _key(fetches)
    loop = current.loop_cache.get(key)
    if loop is None:
        loop = find_named("session_run", _name_of(fetches))
        leaves = _leaves(fetches)
        if all(map(_is_stable, leaves)):
            cache_loop(key, args[0], loop, leaves)
    return loop


def _key(fetches):
    """Return a key of these fetches without calling TensorFlow: the identities of the leaves."""
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
    """Return whether a fetch is a graph element that lives as long as its graph, not an object made for one call."""
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


def _observe_job_trace(args, kwargs):
    """Make way for a step that the job traces itself; return what to call when it is over."""
    options = kwargs.get("options") if "options" in kwargs else args[3] if len(args) > 3 else None
    if options is None or not _traces(options):
        return None
    call = object()
    tracing.job_begins(call)
    return functools.partial(tracing.TRACING.job_calls.discard, call)


def _debugs(options):
    """Return whether the options carry tfdbg's watches."""
    debug_options = getattr(options, "debug_options", None)
    return len(getattr(debug_options, "debug_tensor_watch_opts", ())) > 0


def _collects_stats(session, options):
    """Return whether the job's settings make TensorFlow fill the step statistics of its RunMetadata, untraced."""
    config = getattr(session, "_config", None)
    builds_cost_model = config is not None and config.graph_options.build_cost_model > 0
    return builds_cost_model or getattr(options, "report_tensor_allocations_upon_oom", False)
