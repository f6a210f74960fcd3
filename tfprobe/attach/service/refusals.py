"""Say for a person why a profiler service gave no trace, by what gRPC and the service say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tfprobe.attach.service.addresses import Address
from tfprobe.attach.service.exchange import Exchange
from tfprobe.errors import NoAnswer, TfprobeError, UnreadableInput

if TYPE_CHECKING:
    from tfprobe.attach.service.service import Order

_START = (
    "The job starts the service by tf.profiler.experimental.server.start(PORT); of TensorFlow "
    "Serving it is at the port for gRPC."
)
_SHARE = (
    "TensorFlow 2.4 to 2.20 or so leave traces in files on the machine or in the container of the "
    "job. Name a folder that both can write to: `--server-directory THERE`, or "
    "`--server-directory THERE=HERE` where it is mounted under another name here."
)
# What gRPC says of a connection that did not come about, and what it means; the first that fits.
_CONNECTIONS: tuple[tuple[str, str], ...] = (
    (r"resolv|lookup|name not found", "its host has no address"),
    (r"timed out before receiving SETTINGS", "something accepts there, and does not answer"),
    (r"SETTINGS|HTTP/2|HTTP2", "what listens there does not speak gRPC"),
    (r"refused", "nothing listens there"),
    (r"unreachable|No route", "there is no way to its host"),
    (r"timed out|timeout", "its host does not answer"),
)
_NOT_CONNECTED = re.compile(r"failed to connect|resolv", re.IGNORECASE)
_BUSY = re.compile(r"another profil|already|ALREADY_EXISTS|profiler session", re.IGNORECASE)
_FILES = re.compile(
    r"no such file|permission denied|read-only|not a directory|disk quota|no space", re.IGNORECASE
)


def explained(
    address: Address, code: str, details: str, order: Order, waited_s: float
) -> TfprobeError:
    """Return the error for a call that failed with this gRPC status."""
    if code == "UNAVAILABLE":
        return _not_there(address, details)
    if code == "UNIMPLEMENTED":
        said = f"{address} speaks gRPC and has no profiler service."
        return UnreadableInput(said, hint=_START)
    if code == "DEADLINE_EXCEEDED":
        said = f"{address} took the order and has not answered for {waited_s:.0f} s."
        return UnreadableInput(said, hint="It may be stopped, or its trace too large.")
    if _BUSY.search(details) or code == "ALREADY_EXISTS":
        return _busy(address, details)
    if _FILES.search(details):
        return _no_room(address, order.exchange, details)
    said = f"The profiler service {address} could not record: {details or code}."
    return NoAnswer(said, hint="Its own log may say more.")


def kept_to_itself(address: Address, folder: Exchange) -> NoAnswer:
    """Return the error for a trace that was made and is not here."""
    return NoAnswer(
        f"{address} has recorded, and its trace did not come: it is in {folder.there} on a file "
        "system that is not this one, or the job has TensorFlow 2.2, which hands out none.",
        hint=_SHARE,
    )


def _not_there(address: Address, details: str) -> UnreadableInput:
    if not _NOT_CONNECTED.search(details):
        said = f"{address} went away while it recorded ({details})."
        return UnreadableInput(said, hint="Nothing of it is kept: the job has ended, or crashed.")
    found = (says for sign, says in _CONNECTIONS if re.search(sign, details, re.IGNORECASE))
    why = next(found, None) or details
    return UnreadableInput(f"{address} cannot be reached: {why}.", hint=_START)


def _busy(address: Address, details: str) -> NoAnswer:
    return NoAnswer(
        f"Another profiler is active in the job of {address}, and TensorFlow has one at a time "
        f"(it says: {details.rstrip('.')}).",
        hint="Try again when it is over: a TensorBoard callback, tf.profiler.experimental.start, "
        "another capture, or a step that `tfprobe run` traces.",
    )


def _no_room(address: Address, folder: Exchange, details: str) -> NoAnswer:
    said = f"{address} cannot write its trace to {folder.there} ({details.rstrip('.')})."
    return NoAnswer(said, hint=_SHARE)
