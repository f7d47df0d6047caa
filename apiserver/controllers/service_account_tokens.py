"""Fills in the Secrets for tokens of service accounts, and deletes them with the account.

Such a Secret has the type `kubernetes.io/service-account-token`, and names the account in an annotation. It
gets the account's uid, a token that does not expire, the namespace and the CA of this server.
Source: kubernetes, pkg/controller/serviceaccount/tokens_controller.go.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

from apiserver.auth.authn.service_account import ACCOUNT_NAME, ACCOUNT_UID, TOKEN_KEY, Reference
from apiserver.controller_runtime.controller import Controller, DriftCorrected, Outcome, Requeue
from apiserver.controller_runtime.informer import Informer, ListWatch, Notification
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.meta.errors import Conflict, NotFound
from apiserver.meta.options import DeleteOptions
from apiserver.meta.vocabulary import Document
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import KUBE_CONTROLLER_MANAGER, ProposedObject, WriteRequest

SECRET_TYPE: Final = "kubernetes.io/service-account-token"  # noqa: S105  a type
BACKOFF: Final = Backoff(base_s=0.1, max_s=60.0)
# kube-controller-manager: --concurrent-serviceaccount-token-syncs.
WORKERS: Final = 5
_MARK: Final = f'"{SECRET_TYPE}"'.encode()

Key = tuple[str, str]  # namespace and name
# (namespace, account, name of the Secret) -> the token
IssueToken = Callable[[str, Reference, str], str]


class ServiceAccountTokens:
    """Fills in the Secrets of service accounts. root_ca: returns the CA that verifies this server, in PEM."""

    def __init__(
        self, registry: Registry, served: ServedTable, issue: IssueToken, root_ca: Callable[[], bytes]
    ) -> None:
        self._registry, self._served, self._issue = registry, served, issue
        self._root_ca = root_ca
        # The account of each Secret, and the Secrets of each account.
        self._account_of: dict[Key, str] = {}
        self._secrets_of: dict[Key, set[str]] = {}
        self.queue: WorkQueue[Key] = WorkQueue("serviceaccount_tokens_secret", BACKOFF)

    def look_again(self) -> None:
        """Reconcile all Secrets, because the CA has changed."""
        for key in self._account_of:
            self.queue.add(key)

    async def run(self) -> None:
        """Reconcile Secrets until cancelled."""
        cache, prefix_of = self._registry.cache, self._registry.prefix_of
        secrets = ListWatch(cache, prefix_of(self._served.require("", "secrets")), selects=_may_hold_token)
        accounts = ListWatch(cache, prefix_of(self._served.require("", "serviceaccounts")))
        informers = [
            Informer(
                secrets,
                self._on_secret,
                wait_for_room=self.queue.wait_for_room,
                reports_missed_deletions=True,
            ),
            Informer(accounts, self._on_account, wait_for_room=self.queue.wait_for_room),
        ]
        await Controller(self.queue, self._reconcile, workers=WORKERS, informers=informers).run()

    async def _on_secret(self, notification: Notification) -> None:
        key, new = (notification.namespace, notification.name), notification.new
        account = "" if new is None else await self._registry.offload.read(new, _account_name)
        before = self._account_of.pop(key, "")
        if before:
            secrets = self._secrets_of[notification.namespace, before]
            secrets.discard(notification.name)
            if not secrets:
                del self._secrets_of[notification.namespace, before]
        if account:
            self._account_of[key] = account
            self._secrets_of.setdefault((notification.namespace, account), set()).add(notification.name)
            self.queue.add(key)

    def _on_account(self, notification: Notification) -> None:
        for secret in self._secrets_of.get((notification.namespace, notification.name), ()):
            self.queue.add((notification.namespace, secret))

    async def _reconcile(self, key: Key) -> Outcome:
        namespace, name = key
        secrets = self._served.require("", "secrets")
        try:
            found = await self._registry.get(secrets, namespace, name)
        except NotFound:
            return None
        secret = await self._registry.offload.document(found)
        account_name = _account_name(secret)
        if not account_name or "deletionTimestamp" in secret["metadata"]:
            return None
        # Of one that must not change only the account matters.
        is_fixed = secret.get("immutable") is True
        account = await self._account(namespace, account_name, _annotations(secret).get(ACCOUNT_UID))
        if account is None:
            return await self._delete(secrets, secret)
        return None if is_fixed else await self._fill(key, account)

    async def _account(self, namespace: str, name: str, uid: Any) -> Reference | None:
        """Returns the account; None if it does not exist, or is not the one that the Secret names."""
        try:
            found = await self._registry.get(self._served.require("", "serviceaccounts"), namespace, name)
        except NotFound:
            return None
        own = await self._registry.offload.read(found, lambda document: document["metadata"]["uid"])
        return Reference(name, own) if uid in (None, "", own) else None

    async def _delete(self, secrets: ServedResource, secret: Document) -> Outcome:
        """Delete exactly the checked version of a Secret."""
        meta = secret["metadata"]
        options = DeleteOptions(uid=meta["uid"], resource_version=meta["resourceVersion"])
        try:
            await self._registry.delete(DeleteRequest(secrets, meta["namespace"], meta["name"], options))
        except NotFound:
            return None
        except Conflict:
            return Requeue()
        return None

    async def _fill(self, key: Key, account: Reference) -> Outcome:
        namespace, name = key
        is_written = False

        def filled(current: StoredObject) -> ProposedObject:
            nonlocal is_written
            document = current.document()
            is_written = False
            # It may be another one by now, and is looked at again then.
            if _account_name(document) == account.name and "deletionTimestamp" not in document["metadata"]:
                is_written = self._complete(document, namespace, account)
            return ProposedObject(document)

        request = WriteRequest(
            resource=self._served.require("", "secrets"),
            namespace=namespace,
            name=name,
            writer=KUBE_CONTROLLER_MANAGER,
        )
        try:
            await self._registry.update(request, filled)
        except NotFound:
            return None
        return DriftCorrected((account.uid, self._encoded_ca())) if is_written else None

    def _complete(self, secret: Document, namespace: str, account: Reference) -> bool:
        """Add missing data to a Secret; returns whether any was missing."""
        data = secret["data"] = dict(secret.get("data") or {})
        annotations = secret["metadata"]["annotations"] = dict(_annotations(secret))
        wanted = (
            {"namespace": base64.b64encode(namespace.encode()).decode()} if not data.get("namespace") else {}
        )
        authority = self._encoded_ca()
        if data.get("ca.crt") != authority:
            wanted["ca.crt"] = authority
        if not data.get(TOKEN_KEY):
            token = self._issue(namespace, account, secret["metadata"]["name"])
            wanted[TOKEN_KEY] = base64.b64encode(token.encode()).decode()
        is_incomplete = bool(wanted) or annotations.get(ACCOUNT_UID) != account.uid
        data.update(wanted)
        annotations[ACCOUNT_UID] = account.uid
        return is_incomplete

    def _encoded_ca(self) -> str:
        return base64.b64encode(self._root_ca()).decode()


def _may_hold_token(secret: StoredObject) -> bool:
    return _MARK in secret.tail


def _annotations(secret: Document) -> dict[str, Any]:
    found = secret["metadata"].get("annotations")
    return found if isinstance(found, dict) else {}


def _account_name(secret: Document) -> str:
    """Returns the account whose token a Secret is for; empty if it is for none."""
    name = _annotations(secret).get(ACCOUNT_NAME)
    return name if secret.get("type") == SECRET_TYPE and isinstance(name, str) else ""
