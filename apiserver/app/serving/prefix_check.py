"""Refuses to start on keys that another program owns, or that are not complete."""

from __future__ import annotations

from apiserver.app.serving.listening import CannotStart
from apiserver.storage.interface import Storage
from apiserver.storage.prefix_owner import kube_apiserver_key, marker_key


async def require_usable_prefix(store: Storage, prefix: str, store_name: str, *, adopts: bool) -> None:
    """Check that this server may use the keys of a prefix.

    Beside a kube-apiserver some controllers are off, so every start needs the consent of the user, also where
    a server of this program has been before. adopts: whether a kube-apiserver's prefix is wanted.
    Raises CannotStart, StorageError.
    """
    await require_no_copy(store, prefix, store_name)
    if not adopts and (key := await kube_apiserver_key(store, prefix)) is not None:
        raise CannotStart(
            f"a kube-apiserver uses the prefix {prefix} in {store_name}, which has the key {key}: choose "
            "another prefix with --etcd-prefix, copy its objects with `apiserver storage copy`, or start "
            "with --adopt"
        )


async def require_no_copy(store: Storage, prefix: str, store_name: str) -> None:
    """Check that no copy to a prefix is running or unfinished. Raises CannotStart, StorageError.

    A copy looks for the records of servers when it has written its marker: a server that looks for the marker
    when it has written its record, and the copy, cannot miss each other.
    """
    if (await store.get(marker_key(prefix))).stored is not None:
        raise CannotStart(
            f"a copy to {store_name} below {prefix} is not complete: run `apiserver storage copy` again"
        )
