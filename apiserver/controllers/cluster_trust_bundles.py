"""Publishes the certificates by which pods verify this server, in a ClusterTrustBundle of its signer.

The bundle's name has a digest of its content: when the CA changes a new one is created before the old one is
deleted, so that a pod always finds one. Other bundles of the signer are deleted, too, as the signer is the
server's own.
Source: kubernetes, pkg/controller/certificates/clustertrustbundlepublisher; KEP-3257.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from typing import Final

from apiserver.catalogue.certificates.cluster_trust_bundles import RESOURCE
from apiserver.catalogue.common.signer_names import bundle_name_prefix
from apiserver.controller_runtime.controller import Controller, DriftCorrected, Outcome
from apiserver.controller_runtime.informer import Notification, resource_informer
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.meta.errors import AlreadyExists, Invalid, NotFound
from apiserver.meta.options import DeleteOptions
from apiserver.meta.vocabulary import Document
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import KUBE_CONTROLLER_MANAGER, ProposedObject, WriteRequest

log = logging.getLogger(__name__)

KUBE_APISERVER_SERVING: Final = "kubernetes.io/kube-apiserver-serving"
BACKOFF: Final = Backoff(base_s=0.1, max_s=60.0)
# There is one key: all bundles of the signer.
_ALL: Final = ""


class ClusterTrustBundlePublisher:
    """The controller that publishes this server's CA as a ClusterTrustBundle.

    group: that of ClusterTrustBundles. certificates: returns those of the current CA, in PEM.
    """

    def __init__(
        self, registry: Registry, served: ServedTable, group: str, certificates: Callable[[], str]
    ) -> None:
        self._registry, self._served, self._group = registry, served, group
        self._certificates = certificates
        self._prefix = bundle_name_prefix(KUBE_APISERVER_SERVING)
        # The names of the bundles that the signer has.
        self._names: set[str] = set()
        self.queue: WorkQueue[str] = WorkQueue("ca_cert_publisher_cluster_trust_bundles", BACKOFF)

    def look_again(self) -> None:
        """Reconcile the bundles, because their content has changed."""
        self.queue.add(_ALL)

    async def run(self) -> None:
        """Publish the bundle until cancelled."""
        informer = resource_informer(self._registry, self._resource(), self._on_bundle, queue=self.queue)
        self.queue.add(_ALL)
        await Controller(self.queue, self._reconcile, informers=[informer]).run()

    def _on_bundle(self, notification: Notification) -> None:
        # Of another signer no bundle may be called so.
        if not notification.name.startswith(self._prefix):
            return
        if notification.new is None:
            self._names.discard(notification.name)
        else:
            self._names.add(notification.name)
        self.queue.add(_ALL)

    async def _reconcile(self, key: str) -> Outcome:
        bundle = self._certificates()
        name = bundle_name(KUBE_APISERVER_SERVING, bundle)
        try:
            is_written = await self._ensure(name, bundle)
        except Invalid as error:
            # The certificate that the server has been given is no CA's: others know it by that itself.
            log.warning("cannot publish the server's CA certificates: %s", error)
            return None
        for other in self._names - {name}:
            try:
                await self._registry.delete(DeleteRequest(self._resource(), "", other, DeleteOptions()))
            except NotFound:
                continue
            is_written = True
        return DriftCorrected(name) if is_written else None

    async def _ensure(self, name: str, bundle: str) -> bool:
        """Create or replace a bundle, and return whether that was necessary. Raises Invalid."""
        resource = self._resource()
        wanted: Document = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name},
            "spec": {"signerName": KUBE_APISERVER_SERVING, "trustBundle": bundle},
        }
        request = WriteRequest(resource=resource, namespace="", name=name, writer=KUBE_CONTROLLER_MANAGER)
        try:
            found = (await self._registry.get(resource, "", name)).document()
        except NotFound:
            try:
                await self._registry.create(request, ProposedObject(wanted))
            except AlreadyExists:
                return False  # Another server was faster.
            return True
        if found.get("spec") == wanted["spec"]:
            return False

        def replaced(current: StoredObject) -> ProposedObject:
            return ProposedObject({**wanted, "metadata": current.document()["metadata"]})

        await self._registry.update(request, replaced)
        return True

    def _resource(self) -> ServedResource:
        return self._served.require(self._group, RESOURCE)


def bundle_name(signer: str, bundle: str) -> str:
    """Returns the name of a signer's bundle with the given content."""
    digest = hashlib.sha256(bundle.encode()).digest()
    return f"{bundle_name_prefix(signer)}{digest[:12].hex()}"
