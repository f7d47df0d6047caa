"""Keys of objects in the store, and ranges of keys.

    {prefix}/{group}/{resource}/{namespace}/{name}     a namespaced object
    {prefix}/{group}/{resource}/{name}                 a cluster-scoped one

The core group, which has no name in URLs, is `core` here: no served group can be called that, because
the group of a custom resource has a dot and the built-in names are known. Byte order of keys is the
order of lists: by namespace, then by name.
"""

from __future__ import annotations

from typing import Final

from apiserver.storage.interface import KeyRange

CORE_GROUP: Final = "core"
# Keys that are not objects but the server's own records, as of allocated addresses, lie below this group.
INTERNAL_GROUP: Final = "-"


def resource_prefix(prefix: str, group: str, resource: str) -> str:
    """Returns the prefix of the keys of one resource's objects, as `/registry/apps/deployments/`."""
    return f"{prefix}/{group or CORE_GROUP}/{resource}/"


def resource_of(prefix: str, key: str) -> str | None:
    """Returns the resource prefix that `key` begins with; None if it is not the key of an object."""
    group_start = len(prefix) + 1
    group_end = key.find("/", group_start)
    if group_end < 0 or key[group_start:group_end] == INTERNAL_GROUP:
        return None
    resource_end = key.find("/", group_end + 1)
    return key[: resource_end + 1] if resource_end > 0 else None


def object_key(prefix: str, namespace: str, name: str) -> str:
    """Returns the key of an object below its resource prefix; an empty namespace means cluster-scoped."""
    return f"{prefix}{namespace}/{name}" if namespace else prefix + name


def prefix_range(prefix: str) -> KeyRange:
    """Returns the range of all keys that begin with `prefix`.

    The end is the prefix with its last character raised by one; prefixes here end in `/`, far from the
    top of the code points, so no carry can happen.
    """
    return KeyRange(prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1))


def after(key: str) -> str:
    """Returns the first key that sorts after `key`."""
    return key + "\0"


def encoded(key: str) -> bytes:
    """Returns the bytes of a key.

    Other programs may write keys that are not UTF-8; `decoded` preserves them.
    """
    return key.encode("utf-8", "surrogateescape")


def decoded(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")
