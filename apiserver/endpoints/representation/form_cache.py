"""Caches encoded forms, which are stored on the objects that they were made from, bounded by size."""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final
from weakref import ref

from apiserver.registry.stored_object import StoredObject

# Enough for some forty thousand objects in protobuf, and little beside the objects themselves.
OBJECT_FORMS_BYTES_MAX: Final = 48 * 1024 * 1024
# Segments of lists have a separate bound: a long list must not evict the forms of single objects.
SEGMENTS_BYTES_MAX: Final = 16 * 1024 * 1024
# What a cached form takes beside its own bytes: an entry here, a weak reference, the object's dict.
ENTRY_OVERHEAD_BYTES: Final = 400


class FormCache:
    """Bounds the size of the forms that are stored on objects; evicts the oldest first.

    A form lives in `StoredObject.forms` and is freed together with its object. The cache itself holds only a
    weak reference and a size for each.
    """

    def __init__(self, bytes_max: int, lock: AbstractContextManager[Any]) -> None:
        """lock: held for every change; required if more than one thread adds forms."""
        self._bytes_max = bytes_max
        self._entries: deque[tuple[ref[StoredObject], object, int]] = deque()
        self.bytes = 0
        self._lock = lock

    def put(self, obj: StoredObject, key: object, form: Any, size: int) -> None:
        """Store a form on its object. size: in bytes, approximately."""
        with self._lock:
            forms = obj.forms
            if forms is None:
                forms = obj.forms = {}
            is_new = key not in forms
            forms[key] = form
            if is_new:
                self._entries.append((ref(obj), key, size + ENTRY_OVERHEAD_BYTES))
                self.bytes += size + ENTRY_OVERHEAD_BYTES
                while self._entries and self.bytes > self._bytes_max:
                    self._evict_oldest()

    def _evict_oldest(self) -> None:
        reference, key, size = self._entries.popleft()
        self.bytes -= size
        obj = reference()
        if obj is not None and obj.forms is not None:
            obj.forms.pop(key, None)


class FormCaches:
    """The caches that all encoders of a server share.

    objects: forms of single objects. segments: segments of lists, stored on the first object of each.
    """

    def __init__(
        self,
        objects_bytes_max: int = OBJECT_FORMS_BYTES_MAX,
        *,
        segments_bytes_max: int = SEGMENTS_BYTES_MAX,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        """lock: held for every change; required if more than one thread encodes."""
        lock = lock or nullcontext()
        self.objects = FormCache(objects_bytes_max, lock)
        self.segments = FormCache(segments_bytes_max, lock)
