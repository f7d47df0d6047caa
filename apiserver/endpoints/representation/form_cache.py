"""What has been made of objects, kept beside them as long as there is room."""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final
from weakref import ref

from apiserver.registry.stored_object import StoredObject

# Enough for some forty thousand objects in protobuf, and little beside the objects themselves.
OBJECT_FORMS_BYTES_MAX: Final = 48 * 1024 * 1024
# For runs of lists: a list that is longer must not push out what is kept of single objects.
SEGMENTS_BYTES_MAX: Final = 16 * 1024 * 1024
# Of a kept form beside its own bytes: an entry here, a weak reference, the object's dict.
ENTRY_OVERHEAD_BYTES: Final = 400


class FormCache:
    """One budget for many forms. Who came first leaves first.

    A form is kept by its object, and goes with it; here is only told how much there is.
    """

    def __init__(self, bytes_max: int, lock: AbstractContextManager[Any]) -> None:
        self._bytes_max = bytes_max
        self._entries: deque[tuple[ref[StoredObject], object, int]] = deque()
        self.bytes = 0
        self._lock = lock

    def keep(self, found: StoredObject, key: object, form: Any, size: int) -> None:
        """Keep a form beside its object. size: in bytes, about."""
        with self._lock:
            forms = found.forms
            if forms is None:
                forms = found.forms = {}
            is_new = key not in forms
            forms[key] = form
            if is_new:
                self._entries.append((ref(found), key, size + ENTRY_OVERHEAD_BYTES))
                self.bytes += size + ENTRY_OVERHEAD_BYTES
                while self._entries and self.bytes > self._bytes_max:
                    self._evict_oldest()

    def _evict_oldest(self) -> None:
        reference, key, size = self._entries.popleft()
        self.bytes -= size
        found = reference()
        if found is not None and found.forms is not None:
            found.forms.pop(key, None)


class FormCaches(FormCache):
    """The forms of all objects. runs: those of runs of lists, beside the first object of each."""

    def __init__(
        self,
        bytes_max: int = OBJECT_FORMS_BYTES_MAX,
        *,
        segments_bytes_max: int = SEGMENTS_BYTES_MAX,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        """lock: held for every change, if more than one thread makes forms."""
        lock = lock or nullcontext()
        super().__init__(bytes_max, lock)
        self.runs = FormCache(segments_bytes_max, lock)
