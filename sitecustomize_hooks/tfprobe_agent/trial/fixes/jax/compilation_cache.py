"""Keep compiled programs in the directory `value`, so that the next start compiles none. Steps are as fast."""

MODULES = ("jax",)
_DIRECTORY = "jax_compilation_cache_dir"
# By default only what took a second to compile is kept.
_KEEPING_ALL = {"jax_persistent_cache_min_compile_time_secs": 0.0, "jax_persistent_cache_min_entry_size_bytes": -1}


def patch(name, module, value, note):
    """Set the options of the cache."""
    config = module.config
    if not value:
        note.failed("needs a directory")
    elif getattr(config, _DIRECTORY, None):
        note.skipped("has a cache already")
    elif not config.jax_enable_compilation_cache:
        note.skipped("the program has turned the cache off")
    else:
        config.update(_DIRECTORY, value)
        for option, setting in _KEEPING_ALL.items():
            config.update(option, setting)
        note.applied()
