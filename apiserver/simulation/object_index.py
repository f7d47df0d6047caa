"""The objects of one resource, decoded and indexed, as an informer tells of them.

Controllers of workloads look at all pods of a workload for each change of one of them: to decode them each
time would be most of the work. What a controller has just written it puts here itself, so that it does not
create a second time what the informer has not told of yet.
Source of the idea: k8s.io/client-go, tools/cache (thread_safe_store.go, mutation_cache.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from apiserver.controllers.informer import Notification
from apiserver.meta.owners import controller_of
from apiserver.vocabulary import Document

Key = tuple[str, str]  # namespace and name


class ObjectIndex:
    """Nobody may change the documents that are in it.

    on_change: is told of each object that is new, has changed or is gone: as it was before, and as it is.
    Holds as many objects as there are of the resource; the decoded form takes some ten times its text.
    """

    def __init__(
        self, on_change: Callable[[Document | None, Document | None], None] = lambda *_: None
    ) -> None:
        self._on_change = on_change
        self._objects: dict[Key, tuple[int, Document]] = {}
        self._by_owner: dict[str, set[Key]] = {}
        self._by_namespace: dict[str, set[Key]] = {}

    def notify(self, notification: Notification) -> None:
        """The informer's handler."""
        key = (notification.namespace, notification.name)
        if notification.new is None:
            self._remove(key, notification.revision)
        else:
            self._put(key, notification.revision, notification.new.document())

    def put(self, written: Document) -> None:
        """Take note of an object that was just written."""
        meta = written["metadata"]
        self._put((meta.get("namespace", ""), meta["name"]), int(meta["resourceVersion"]), written)

    def remove(self, removed: Document) -> None:
        """Take note of an object that was just removed, and not only marked as being deleted."""
        meta = removed["metadata"]
        self._remove((meta.get("namespace", ""), meta["name"]), int(meta["resourceVersion"]))

    # ---- reads

    def get(self, namespace: str, name: str) -> Document | None:
        found = self._objects.get((namespace, name))
        return found[1] if found is not None else None

    def owned_by(self, uid: str) -> list[Document]:
        """Returns what the object with this uid manages."""
        return self._all(self._by_owner.get(uid, ()))

    def in_namespace(self, namespace: str) -> list[Document]:
        return self._all(self._by_namespace.get(namespace, ()))

    def __iter__(self) -> Iterator[Document]:
        return iter([document for _, document in self._objects.values()])

    def __len__(self) -> int:
        return len(self._objects)

    # ---- inside

    def _all(self, keys: Iterable[Key]) -> list[Document]:
        return [self._objects[key][1] for key in sorted(keys)]

    def _put(self, key: Key, revision: int, document: Document) -> None:
        before = self._objects.get(key)
        if before is not None and before[0] >= revision:
            return
        old = before[1] if before is not None else None
        if old is not None:
            self._unindex(key, old)
        self._objects[key] = (revision, document)
        owner = controller_of(document)
        if owner is not None:
            self._by_owner.setdefault(owner["uid"], set()).add(key)
        self._by_namespace.setdefault(key[0], set()).add(key)
        self._on_change(old, document)

    def _remove(self, key: Key, revision: int) -> None:
        """revision: of the deletion, or of the object that was removed."""
        before = self._objects.get(key)
        if before is None or before[0] > revision:
            return
        del self._objects[key]
        self._unindex(key, before[1])
        self._on_change(before[1], None)

    def _unindex(self, key: Key, document: Document) -> None:
        owner = controller_of(document)
        for index, value in ((self._by_owner, owner["uid"] if owner else ""), (self._by_namespace, key[0])):
            keys = index.get(value)
            if keys is not None:
                keys.discard(key)
                if not keys:
                    del index[value]
