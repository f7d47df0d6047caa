"""Decodes the values before changes, each from the value after it."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver.storage.history import deltas
from apiserver.storage.history.changes import Cipher, EncodedValue, RecordedChange
from apiserver.storage.history.past_values import LOST, Value


class ValueDecoder:
    """Decodes values that a cipher has encrypted. What cannot be decoded is LOST."""

    def __init__(self, cipher: Cipher) -> None:
        self._cipher = cipher

    def before(self, key: str, change: RecordedChange | EncodedValue, newer: Value | None) -> Value | None:
        """Returns the value before a change; None if there was none. newer: that after the change."""
        if change.encoded is None:
            return None
        base = None if newer is None or newer is LOST else newer.value
        try:
            return Value(deltas.decode(self._cipher.decrypt(key, change.encoded), base), change.since)
        except deltas.InvalidDelta:
            return LOST

    def before_all(self, key: str, changes: Sequence[EncodedValue], newest: Value | None) -> Value | None:
        """Returns the value before the first of some changes, as `before` does. newest: that after all."""
        value = newest
        for change in reversed(changes):
            value = self.before(key, change, value)
        return value
