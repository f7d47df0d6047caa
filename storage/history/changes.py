"""What the history keeps of a change: the value before it, when it was made, and who made it."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol


class Author(NamedTuple):
    """The request that made a change.

    user: empty if the author is unknown. groups: a digest of the user's groups.
    user_agent, manager: as the client sent them; the manager is the owner of the changed fields.
    verb: as in RBAC rules. subresource: empty for the object itself.
    """

    user: str
    groups: str = ""
    user_agent: str = ""
    manager: str = ""
    verb: str = ""
    subresource: str = ""


UNKNOWN_AUTHOR: Final = Author("")


class Change(NamedTuple):
    """A change of one key.

    revision: that of the write. since: the revision at which the previous value was written; 0 if there was
        none, and the key was created.
    previous: the value before; None if there was none, empty if it could not be read.
    newer: the value after the change; None for a deletion. Any value if there was none before.
    at_ms: the time of the change, in milliseconds since 1970. audit_id: of the request; may be empty.
    """

    key: str
    revision: int
    since: int
    previous: bytes | None
    newer: bytes | None
    at_ms: int
    author: Author = UNKNOWN_AUTHOR
    audit_id: str = ""


class EncodedValue(NamedTuple):
    """The value before a change, as the history has it. See `Change`.

    revision: that of the change.
    encoded: the value, as `deltas` encodes it, and encrypted if it must be; None if there was none.
    is_whole: whether it can be decoded without the value after the change.
    """

    revision: int
    since: int
    encoded: bytes | None
    is_whole: bool


class RecordedChange(NamedTuple):
    """A change as the history has it. See `Change`, and `EncodedValue`.

    is_deletion: whether the key had no value after the change.
    thinned: how many changes before it were dropped: see `thinning`.
    """

    revision: int
    since: int
    encoded: bytes | None
    is_deletion: bool
    at_ms: int
    author: Author
    audit_id: str
    thinned: int = 0


class KeyChange(NamedTuple):
    """A change among those of all keys, without the values.

    position: its place among all changes; newer ones have larger positions.
    """

    position: int
    key: str
    revision: int
    author: Author


class Cipher(Protocol):
    """Encrypts what is kept of values. Errors of `encrypt` are those of `UndoLog.append`."""

    def encrypt(self, key: str, data: bytes) -> bytes: ...

    def decrypt(self, key: str, data: bytes) -> bytes:
        """Returns what `encrypt` was given. Raises InvalidDelta if that is not possible any more."""
        ...

    def renewed(self, key: str, data: bytes) -> bytes | None:
        """Returns data as `encrypt` returns it now, with the current key; None if it is so already.

        Raises as both others do.
        """
        ...


class Plain:
    """Encrypts nothing."""

    def encrypt(self, key: str, data: bytes) -> bytes:
        return data

    def decrypt(self, key: str, data: bytes) -> bytes:
        return data

    def renewed(self, key: str, data: bytes) -> bytes | None:
        return None


PLAIN: Final = Plain()


class Span(NamedTuple):
    """The revisions above `after`, up to and including `until`."""

    after: int
    until: int
