"""The bundle of certificates by which pods know the server.

Source: kubernetes, pkg/controller/certificates/clustertrustbundlepublisher; KEP-3257.
"""

from __future__ import annotations

import hashlib
from typing import Final

import pytest
from cryptography import x509

from apiserver.catalogue.builtins import Catalogue
from apiserver.catalogue.runtime_config import RuntimeConfig
from apiserver.controllers.cluster_trust_bundles import ClusterTrustBundlePublisher, bundle_name
from apiserver.meta.brand import Brand
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.storage.embedded import EmbeddedStore
from tests.support.certificates import certificate
from tests.support.eventually import eventually
from tests.support.in_process import running, server

GROUP: Final = "certificates.k8s.io"
TABLE: Final = Catalogue(Brand(), BuiltinSchemas((1, 36))).resources(
    RuntimeConfig({f"{GROUP}/v1beta1": True})
)
BUNDLES: Final = next(each for each in TABLE.resources if each.resource == "clustertrustbundles")
SIGNER: Final = "kubernetes.io/kube-apiserver-serving"
ONE, TWO = (certificate(name, x509.BasicConstraints(ca=True, path_length=None)) for name in ("one", "two"))


class Published:
    """What is published by a server whose certificates are `current`."""

    def __init__(self, registry: Registry, current: str) -> None:
        self.registry, self.current = registry, current
        self.publisher = ClusterTrustBundlePublisher(
            registry, ServedTable(TABLE), GROUP, lambda: self.current
        )

    @property
    def count(self) -> int:
        return self.registry.count(BUNDLES)

    def has(self, name: str) -> bool:
        found = self.registry.cache.get_cached(self.registry.key(BUNDLES, "", name))
        return found is not None and found.value is not None

    def certificates(self, name: str) -> str:
        found = self.registry.cache.get_cached(self.registry.key(BUNDLES, "", name))
        return "" if found is None or found.value is None else found.value.document()["spec"]["trustBundle"]

    async def create(self, name: str, signer: str, bundle: str = ONE) -> None:
        document = {
            "apiVersion": BUNDLES.api_version,
            "kind": BUNDLES.kind,
            "metadata": {"name": name},
            "spec": {"signerName": signer, "trustBundle": bundle},
        }
        await self.registry.create(
            WriteRequest(resource=BUNDLES, namespace="", name=name), ProposedObject(document)
        )


def test_names_have_a_digest_of_the_content() -> None:
    digest = hashlib.sha256(ONE.encode()).hexdigest()[:24]
    assert bundle_name(SIGNER, ONE) == f"kubernetes.io:kube-apiserver-serving:{digest}"


async def test_the_certificates_of_the_server_are_published(store: EmbeddedStore) -> None:
    async with server(store) as registry:
        published = Published(registry, ONE)
        async with running(published.publisher.run()):
            await eventually(lambda: published.certificates(bundle_name(SIGNER, ONE)) == ONE)


async def test_when_they_change_there_is_another_bundle(store: EmbeddedStore) -> None:
    async with server(store) as registry:
        published = Published(registry, ONE)
        async with running(published.publisher.run()):
            await eventually(lambda: published.count == 1)
            published.current = TWO
            published.publisher.look_again()
            await eventually(lambda: published.has(bundle_name(SIGNER, TWO)) and published.count == 1)


async def test_what_others_make_of_them_is_undone(store: EmbeddedStore) -> None:
    """But the bundles of other signers stay."""
    async with server(store) as registry:
        published = Published(registry, ONE)
        await published.create("kubernetes.io:kube-apiserver-serving:mine", SIGNER, TWO)
        await published.create("example.com:signer:a", "example.com/signer")
        await published.create(bundle_name(SIGNER, ONE), SIGNER, TWO)
        async with running(published.publisher.run()):
            await eventually(
                lambda: published.count == 2 and published.certificates(bundle_name(SIGNER, ONE)) == ONE
            )
            assert published.has("example.com:signer:a")


async def test_a_certificate_of_no_ca_is_not_published(
    store: EmbeddedStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The server may have been given one that has signed itself."""
    async with server(store) as registry:
        published = Published(registry, certificate("own"))
        async with running(published.publisher.run()):
            await eventually(lambda: "cannot publish the server's CA certificates" in caplog.text)
        assert published.count == 0
