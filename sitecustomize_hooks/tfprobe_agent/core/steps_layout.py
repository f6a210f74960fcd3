"""The layout of steps.bin, as docs/run-directory.md specifies it."""

KINDS = (
    "session_run",
    "callable",
    "fit",
    "evaluate",
    "predict",
    "train_on_batch",
    "test_on_batch",
    "predict_on_batch",
    "function",
    "eager",
    "jit",
    "compiled",
    "optimizer_step",
    "forward",
    "compiled_step",
    "grad",
)

WORD = 8
MAGIC = int.from_bytes(b"TFPSTEP1", "little")
LAYOUT_VERSION = 1
HEADER_WORDS = 512
LOOP_CAPACITY = 256
LOOP_WORDS = 19968
FILE_WORDS = HEADER_WORDS + LOOP_CAPACITY * LOOP_WORDS
RING_STEPS = 8192
RING_MASK = RING_STEPS - 1
BUCKETS = 768
BUCKET_OFFSET = 1023 << 4
AGGREGATE_WORDS = 8 + 2 * BUCKETS
AGGREGATES_AT = 64
RING_AT = AGGREGATES_AT + 2 * AGGREGATE_WORDS
FOLD = 1024

WATCHED_FLAG = -1 << 63  # the gap after the step; the sign of a word
NEW_THREAD_FLAG = 1 << 62
TRACED_FLAG = 1 << 61
RAISED_FLAG = 1 << 60
WAITED_FLAG = 1 << 59  # the job waited for the step, of a loop whose calls only queue
TIME_MASK = WAITED_FLAG - 1

RUNNING, FINISHED, DISABLED = 1, 2, 3
# Words of the header.
USED = 10
STATE_WORD, EXIT_WORD = 11, 12
HOOK_CALLS, HOOK_NS, FOLD_NS, CAPTURES, TRACED_NS, ONCE_NS = 13, 14, 15, 16, 17, 18
STARTED_WORD, ACTIVE_WORD = 19, 20
UNTIMED_STEPS, UNTIMED_THREADS, EXIT_MONO_WORD = 21, 22, 23
ENDING_WORD, STATUS_WORD = 24, 25  # the status takes three words
REQUEST, REQUEST_STEPS, REQUEST_LOOP, REQUEST_SEEN, REQUEST_LEFT, TRACING_ENDED = 32, 33, 34, 40, 41, 42
# The header except for the words that others write.
OWN_HEADER = (0, REQUEST), (REQUEST_SEEN, HEADER_WORDS)
# Words of a loop block.
HEAD_WORDS = 16
KIND, COUNT, RAISED, TRACED, THREAD_ID, FIRST_SEEN, PER_EXECUTION, OPTIMIZER_STEPS = range(8)
SLOT, RETRACES, LOOK, THREADS = 8, 9, 10, 11
QUEUES, WAITS, WAIT_NS, CALL_NS = 12, 13, 14, 15  # of loops whose calls only queue their steps
NAME_AT, NAME_WORDS = 16, 32
THREAD_NAME_AT, THREAD_NAME_WORDS = 48, 16

NEVER = 1 << 62
# A step looks at the control words if the last look is this long ago: reading a word of another page is expensive.
# Whoever requests traces need not wait for it: it stores 0 in the word of each loop that says when to look.
POLL_NS = 10 * 1000 * 1000
# A disk that had no room for a loop block is tried again after this time.
REFUSED_NS = 10 * 1000 * 1000 * 1000
