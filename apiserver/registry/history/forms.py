"""What the history keeps of an object: all of it, but no value and no annotation of a Secret."""

from __future__ import annotations

import base64
import hmac
from typing import Any, Final

import orjson

from apiserver.registry.history.policy import HistoryPolicy
from apiserver.registry.patch.merge_patch import is_same
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.keys import object_key, resource_of, resource_prefix

_DIGEST_LENGTH: Final = 16
# What is shown instead of a value; the digest tells whether two values are the same.
REDACTED: Final = "redacted:"
_STATUS: Final = "status"


class RecordedValues:
    """All values in the history, as `KnownValues`: they were checked before they were recorded."""

    def take(self, key: str, value: bytes) -> bool:
        return True


def is_status_only(before: bytes, after: bytes) -> bool:
    """Whether two recorded values differ in the status, and in nothing else that clients have set.

    Not of values that are nested too deeply to be compared, which other clients of etcd may have written.
    """
    old, new = orjson.loads(before), orjson.loads(after)
    try:
        return not is_same(old.pop(_STATUS, None), new.pop(_STATUS, None)) and is_same(
            _without_managers(old), _without_managers(new)
        )
    except (TypeError, RecursionError):
        return False


def _without_managers(document: dict[str, Any]) -> dict[str, Any]:
    # Each write changes them.
    document["metadata"].pop("managedFields", None)
    return document


def without_status(value: bytes) -> bytes:
    """Returns a recorded value without its status."""
    document = orjson.loads(value)
    document.pop(_STATUS, None)
    return orjson.dumps(document)


class RecordedForms:
    """Makes the recorded form of objects. prefix: of all keys. key: of the digests of secret values.

    policy: which resources are recorded at all.
    """

    def __init__(self, prefix: str, key: bytes, policy: HistoryPolicy) -> None:
        self.policy = policy
        self._prefix = prefix
        self._secrets, self._namespaces = (
            resource_prefix(prefix, "", resource) for resource in ("secrets", "namespaces")
        )
        self._key = key

    def of(self, key: str, found: StoredObject) -> bytes:
        """Returns what is recorded of an object; empty if it cannot be read.

        Empty, too, of a Secret that is nested too deeply, which only other clients of etcd may have written.
        """
        form = found.stored_form()
        if not form or not self.redacts(key):
            return form
        try:
            return self._redacted(form)
        except TypeError:
            return b""

    def resource_of(self, key: str) -> str:
        """Returns the resource prefix of the key of an object, or of a prefix of such keys."""
        return resource_of(self._prefix, key) or ""

    def namespace_key(self, name: str) -> str:
        """Returns the key of a Namespace."""
        return object_key(self._namespaces, "", name)

    def redacts(self, key: str) -> bool:
        """Whether objects with this key are not recorded as they are."""
        return key.startswith(self._secrets)

    def _redacted(self, form: bytes) -> bytes:
        document: dict[str, Any] = orjson.loads(form)
        if isinstance(values := document.get("data"), dict):
            # Clients expect base64.
            document["data"] = {
                name: base64.b64encode(self._digest(value).encode()).decode()
                for name, value in values.items()
            }
        # Tools keep what they have applied in different annotations.
        metadata = document.get("metadata", {})
        if isinstance(annotations := metadata.get("annotations"), dict):
            metadata["annotations"] = {name: self._digest(value) for name, value in annotations.items()}
        return orjson.dumps(document)

    def _digest(self, value: object) -> str:
        return REDACTED + hmac.digest(self._key, orjson.dumps(value), "sha256").hex()[:_DIGEST_LENGTH]
