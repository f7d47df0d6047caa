"""The objects of one resource, decoded and indexed, from an informer.

Controllers of workloads look at all pods of a workload for each change of one of them: decoding them each
time would be most of the work. A controller adds objects that it has just written, so that it does not create
them again before the informer delivers them.
Source of the idea: k8s.io/client-go, tools/cache (thread_safe_store.go, mutation_cache.go).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from apiserver.controller_runtime.informer import Notification
from apiserver.meta.owners import controller_of
from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.resources import Key


class ObjectIndex:
    """The objects of one resource as an informer knows them; its documents must not be changed.

    Documents are without managedFields.
    on_change: called for each new, changed or deleted object, with the old and the new object. If another
        object has taken its name, there are two calls.
    Holds all objects of the resource; the decoded form takes some ten times the size of its text.
    """

    def __init__(
        self, on_change: Callable[[Document | None, Document | None], None] = lambda *_: None
    ) -> None:
        self._on_change = on_change
        self._objects: dict[Key, tuple[int, Document]] = {}
        self._by_owner: dict[str, set[Key]] = {}
        self._orphans: dict[str, set[Key]] = {}  # by namespace
        self._by_namespace: dict[str, set[Key]] = {}
        # The newest revision that the informer has delivered.
        self._told = 0

    def notify(self, notification: Notification) -> None:
        """Record a change of an object, as the informer's handler."""
        key = (notification.namespace, notification.name)
        self._told = max(self._told, notification.revision)
        if notification.new is None:
            self._remove(key, notification.revision)
        else:
            self._put(key, notification.revision, notification.new.document())

    def put(self, written: Document) -> None:
        """Record an object that was just written.

        If the informer has delivered newer changes, but not this object, it is deleted again already.
        """
        meta = written["metadata"]
        key, revision = (meta.get("namespace", ""), meta["name"]), int(meta["resourceVersion"])
        if key in self._objects or revision > self._told:
            self._put(key, revision, written)

    def remove(self, removed: Document) -> None:
        """Record an object that was just deleted, and not only marked for deletion."""
        meta = removed["metadata"]
        self._remove((meta.get("namespace", ""), meta["name"]), int(meta["resourceVersion"]))

    # ---- reads

    def get(self, namespace: str, name: str) -> Document | None:
        found = self._objects.get((namespace, name))
        return found[1] if found is not None else None

    def owned_by(self, uid: str) -> list[Document]:
        """Returns the objects that the object with this uid controls."""
        return self._all(self._by_owner.get(uid, ()))

    def orphans_in(self, namespace: str) -> list[Document]:
        """Returns the objects of a namespace without a controller."""
        return self._all(self._orphans.get(namespace, ()))

    def in_namespace(self, namespace: str) -> list[Document]:
        return self._all(self._by_namespace.get(namespace, ()))

    def names_in(self, namespace: str) -> Container[str]:
        """Returns the current names in a namespace."""
        return _Names(self._objects, namespace)

    def __iter__(self) -> Iterator[Document]:
        return iter([document for _, document in self._objects.values()])

    # ---- inside

    def _all(self, keys: Iterable[Key]) -> list[Document]:
        return [self._objects[key][1] for key in sorted(keys)]

    def _put(self, key: Key, revision: int, document: Document) -> None:
        before = self._objects.get(key)
        if before is not None and before[0] >= revision:
            return
        # They are not used here, and are a third of a pod: kube-controller-manager drops them, too.
        document["metadata"].pop("managedFields", None)
        old = before[1] if before is not None else None
        if old is not None and old["metadata"].get("uid") != document["metadata"].get("uid"):
            self._take_out(key, old)
            old = None
        if old is not None:
            self._unindex(key, old)
        self._objects[key] = (revision, document)
        for index, value in self._places(key, document):
            index.setdefault(value, set()).add(key)
        self._on_change(old, document)

    def _remove(self, key: Key, revision: int) -> None:
        """Remove an object."""
        before = self._objects.get(key)
        if before is not None and before[0] <= revision:
            self._take_out(key, before[1])

    def _take_out(self, key: Key, document: Document) -> None:
        del self._objects[key]
        self._unindex(key, document)
        self._on_change(document, None)

    def _unindex(self, key: Key, document: Document) -> None:
        for index, value in self._places(key, document):
            keys = index.get(value)
            if keys is not None:
                keys.discard(key)
                if not keys:
                    del index[value]

    def _places(self, key: Key, document: Document) -> list[tuple[dict[str, set[Key]], str]]:
        """Returns the indexes that an object is in, with its keys there."""
        owner, namespace = controller_of(document), key[0]
        by_owner = (self._by_owner, owner["uid"]) if owner is not None else (self._orphans, namespace)
        return [by_owner, (self._by_namespace, namespace)]


class _Names:
    def __init__(self, objects: Mapping[Key, object], namespace: str) -> None:
        self._objects, self._namespace = objects, namespace

    def __contains__(self, name: object) -> bool:
        return (self._namespace, name) in self._objects
