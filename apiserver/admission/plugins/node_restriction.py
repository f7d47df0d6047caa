"""Confines nodes: a kubelet may change only its own Node, the pods bound to it, and its lease.

A node is a user `system:node:NAME` of the group `system:nodes`. Authorization decides whether it may make a
request at all; this plugin checks the effect of the request.
Source: kubernetes, plugin/pkg/admission/noderestriction.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.listers import Lister, refused
from apiserver.admission.plugin_context import PluginContext
from apiserver.admission.plugins.mirror_pods import UnknownVolume, api_references
from apiserver.admission.plugins.pod_specs import MIRROR, PODS
from apiserver.auth.authz.attributes import Attributes, is_allowed
from apiserver.auth.authz.node.authorizer import LEASE_NAMESPACE
from apiserver.auth.authz.node.identity import node_of
from apiserver.golang.pem import pem_blocks
from apiserver.golang.quoting import aggregate
from apiserver.meta.errors import Forbidden, NotFound
from apiserver.meta.field_errors import quote
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.schema.validation.documents import at

_NODES: Final = GroupResource("", "nodes")
_CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
_ACCOUNTS: Final = GroupResource("", "serviceaccounts")
_WRITES: Final = (Operation.CREATE, Operation.UPDATE, Operation.DELETE)
# Labels of Kubernetes that a kubelet sets on its Node. Source: k8s.io/kubelet, pkg/apis/well_known_labels.go.
_RESTRICTED: Final = "node-restriction.kubernetes.io"
_OF_KUBERNETES: Final = ("kubernetes.io", "k8s.io")
_OF_KUBELETS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBELET_LABELS: Final = frozenset(
    {
        *("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch"),
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
        *("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"),
        *("beta.kubernetes.io/instance-type", "beta.kubernetes.io/os", "beta.kubernetes.io/arch"),
        "node.kubernetes.io/instance-type",
    }
)
_KUBELET_SIGNERS: Final = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")
# What a kubelet reports of a claim.
_CLAIM_STATUS: Final = frozenset({"capacity", "conditions"})
_RESIZED_STATUS: Final = frozenset({"allocatedResources", "allocatedResourceStatuses"})
# The first release in which mirror pods refer to nothing. What those before look for, and how they name it.
ALL_REFERENCES_SINCE: Final = 34
_REFERENCES_BEFORE: Final = {
    "serviceaccounts": "a service account",
    "secrets": "secrets",
    "configmaps": "configmaps",
    "clustertrustbundles": "clustertrustbundles",
    "persistentvolumeclaims": "persistentvolumeclaims",
    "resourceclaims": "resourceclaims",
}
# The CSI drivers that mount volumes whose own drivers are no longer part of Kubernetes.
# Source: k8s.io/csi-translation-lib, plugins.
_MIGRATED: Final = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "portworxVolume": "pxd.portworx.com",
    "vsphereVolume": "csi.vsphere.vmware.com",
}


class _Write:
    """A write by a node, and the error that refuses it."""

    def __init__(
        self, node: str, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> None:
        self.node, self.attributes = node, attributes
        self.new, self.old = new or {}, old or {}
        self.operation = attributes.operation

    def refuse(self, why: str) -> Forbidden:
        document = self.new or self.old or {"metadata": {}}
        return refused(self.attributes, document, why)

    @property
    def who(self) -> str:
        return f"node {quote(self.node)}"


class NodeRestriction(Plugin):
    name = "NodeRestriction"

    def __init__(self, context: PluginContext, gates: FeatureGates) -> None:
        group = context.brand.group
        self._names_all_references = gates.minor >= ALL_REFERENCES_SINCE
        self._restricts_audiences = gates.is_on("ServiceAccountNodeAudienceRestriction")
        self._authorize = context.authorize
        self._pods, self._nodes = context.lister(*PODS), context.lister(*_NODES)
        self._claims, self._volumes = context.lister(*_CLAIMS), context.lister("", "persistentvolumes")
        self._drivers = context.lister(group("storage"), "csidrivers")
        self._accounts = context.lister(*_ACCOUNTS)
        self._pod_requests = GroupResource(group("certificates"), "podcertificaterequests")
        self._rules: dict[GroupResource, Callable[[_Write], object]] = {
            _NODES: _check_node,
            GroupResource(group("coordination"), "leases"): _check_lease,
            GroupResource(group("storage"), "csinodes"): _check_csi_node,
            GroupResource(group("resource"), "resourceslices"): _check_resource_slice,
            _CLAIMS: partial(_check_claim, reported_fields(gates)),
        }
        if not gates.is_on("AllowInsecureKubeletCertificateSigningRequests"):
            requests = GroupResource(group("certificates"), "certificatesigningrequests")
            self._rules[requests] = _check_certificate_request

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        if operation not in _WRITES:
            return False
        if resource == _ACCOUNTS:
            return subresource == "token" and operation is Operation.CREATE
        return resource in (PODS, self._pod_requests) or resource in self._rules

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        """Changes nothing."""
        await self._check(attributes, new, old)

    async def mutate_deletion(self, attributes: AdmissionAttributes, old: Document | None) -> None:
        await self._check(attributes, None, old)

    async def _check(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> None:
        """Check a write by a node."""
        node = node_of(attributes.user)
        if node is None:
            return
        write = _Write(node, attributes, new, old)
        if not node:
            raise write.refuse(f"could not determine node from user {quote(attributes.user.name)}")
        resource = attributes.resource.stored_group_resource
        if resource == PODS:
            await self._check_pod(write)
        elif resource == _ACCOUNTS:
            await self._check_token(write)
        elif resource == self._pod_requests:
            await self._check_pod_certificate_request(write)
        else:
            self._rules[resource](write)

    # ---- pods

    async def _check_pod(self, write: _Write) -> None:
        match write.attributes.subresource, write.operation:
            case "", Operation.CREATE:
                await self._check_new_pod(write)
            case "", Operation.DELETE:
                if at(write.old, "spec", "nodeName") != write.node:
                    raise write.refuse(f"{write.who} can only delete pods with spec.nodeName set to itself")
            case "", operation:
                raise write.refuse(
                    f"unexpected operation {quote(operation.value)}, {write.who} can only create and delete "
                    "mirror pods"
                )
            case "status", Operation.UPDATE:
                _check_pod_status(write)
            case "eviction", Operation.CREATE:
                name = write.attributes.name or write.new["metadata"].get("name", "")
                pod = await _existing(self._pods, name, write.attributes.namespace)
                if at(pod, "spec", "nodeName") != write.node:
                    raise write.refuse(
                        f"node {write.node} can only evict pods with spec.nodeName set to itself"
                    )
            case "status" | "eviction", operation:
                raise write.refuse(f"unexpected operation {quote(operation.value)}")
            case subresource, _:
                raise write.refuse(
                    f"unexpected pod subresource {quote(subresource)}, only 'status' and 'eviction' are "
                    "allowed"
                )

    async def _check_new_pod(self, write: _Write) -> None:
        """Check that a node creates only mirror pods, which give it access to no object."""
        meta, spec, who = write.new["metadata"], write.new["spec"], write.who
        if MIRROR not in (meta.get("annotations") or {}):
            raise write.refuse(
                f"pod does not have {quote(MIRROR)} annotation, {who} can only create mirror pods"
            )
        if spec.get("nodeName") != write.node:
            raise write.refuse(f"{who} can only create pods with spec.nodeName set to itself")
        owners = meta.get("ownerReferences") or ()
        if len(owners) > 1:
            raise write.refuse(f"{who} can only create pods with a single owner reference set to itself")
        owner = owners[0] if owners else {}
        if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", write.node):
            raise write.refuse(f"{who} can only create pods with an owner reference set to itself")
        if not owner.get("controller"):
            raise write.refuse(f"{who} can only create pods with a controller owner reference set to itself")
        if owner.get("blockOwnerDeletion"):
            raise write.refuse(f"{who} must not set blockOwnerDeletion on an owner reference")
        uid = (await _existing(self._nodes, write.node))["metadata"]["uid"]
        if owner.get("uid") != uid:
            raise write.refuse(f"node {write.node} UID mismatch: expected {owner.get('uid')} got {uid}")
        try:
            what = self._reference(spec)
        except UnknownVolume as error:
            raise write.refuse(f"error checking mirror pod for API references: {error}") from None
        if what is not None:
            raise write.refuse(f"{who} can not create pods that reference {what}")

    def _reference(self, spec: Document) -> str | None:
        """Returns the first API object that a mirror pod refers to. Raises UnknownVolume."""
        references = api_references(spec)
        if self._names_all_references:
            return next(references, None)
        return next((_REFERENCES_BEFORE[each] for each in references if each in _REFERENCES_BEFORE), None)

    # ---- certificates of pods

    async def _check_pod_certificate_request(self, write: _Write) -> None:
        """Check that a node requests certificates only for pods that run on it."""
        attributes, spec = write.attributes, write.new.get("spec") or {}
        if write.operation is not Operation.CREATE:
            raise write.refuse(f"unexpected operation {write.operation.value}")
        if attributes.subresource:
            raise write.refuse(f"unexpected subresource {attributes.subresource}")
        node = spec.get("nodeName", "")
        if node != write.node:
            raise write.refuse(
                f"PodCertificateRequest.Spec.NodeName={quote(node)}, which is not the requesting node "
                f"{quote(write.node)}"
            )
        named = f"{attributes.namespace}/{spec.get('podName', '')}"
        request = f"PodCertificateRequest for pod {quote(named)}"
        own_uid = (await _existing(self._nodes, node))["metadata"]["uid"]
        if (uid := spec.get("nodeUID", "")) != own_uid:
            raise write.refuse(
                f"{request} names node UID {quote(uid)}, inconsistent with the running node "
                f"({quote(own_uid)})"
            )
        pod = await _existing(self._pods, spec.get("podName", ""), attributes.namespace)
        meta = pod["metadata"]
        if (uid := spec.get("podUID", "")) != meta["uid"]:
            raise write.refuse(
                f"{request} contains pod UID ({quote(uid)}) which differs from running pod "
                f"{quote(meta['uid'])}"
            )
        if at(pod, "spec", "nodeName") != node:
            raise write.refuse(
                f"pod {quote(named)} is not running on node {quote(node)} named in the PodCertificateRequest"
            )
        if MIRROR in (meta.get("annotations") or {}):
            raise write.refuse(f"pod {quote(named)} is a mirror pod")
        name, own_name = spec.get("serviceAccountName", ""), at(pod, "spec", "serviceAccountName") or ""
        if name != own_name:
            raise write.refuse(
                f"{request} contains serviceAccountName ({quote(name)}) that differs from running pod "
                f"({quote(own_name)})"
            )
        account_uid = (await _existing(self._accounts, name, attributes.namespace))["metadata"]["uid"]
        if (uid := spec.get("serviceAccountUID", "")) != account_uid:
            raise write.refuse(
                f"{request} names service account UID {quote(uid)}, which differs from the running service "
                f"account ({quote(account_uid)})"
            )

    # ---- tokens

    async def _check_token(self, write: _Write) -> None:
        """Check that a node gets tokens only for pods that run on it, with audiences that these request."""
        attributes, spec = write.attributes, write.new.get("spec") or {}
        bound = spec.get("boundObjectRef") or {}
        if (bound.get("apiVersion"), bound.get("kind")) != ("v1", "Pod") or not bound.get("name"):
            raise write.refuse("node requested token not bound to a pod")
        uid = bound.get("uid")
        if not uid:
            raise write.refuse("node requested token with a pod binding without a uid")
        pod = await _existing(self._pods, bound["name"], attributes.namespace)
        if uid != pod["metadata"]["uid"]:
            raise write.refuse(
                f"the UID in the bound object reference ({uid}) does not match the UID in record. The object "
                "might have been deleted and then recreated"
            )
        if at(pod, "spec", "nodeName") != write.node:
            raise write.refuse("node requested token bound to a pod scheduled on a different node")

        if self._restricts_audiences:
            await self._check_audience(write, pod, spec.get("audiences") or ())

    async def _check_audience(self, write: _Write, pod: Document, audiences: Sequence[str]) -> None:
        """Check the audience that a node requests: one of the pod's volumes, or one that the node is
        allowed.
        """
        if len(audiences) > 1:
            raise write.refuse("node may only request 0 or 1 audiences")
        audience = audiences[0] if audiences else ""
        attributes = write.attributes
        problems: list[str] = []
        for volume in at(pod, "spec", "volumes") or ():
            sources = at(volume, "projected", "sources") or ()
            tokens = [each["serviceAccountToken"] for each in sources if each.get("serviceAccountToken")]
            try:
                tokens += await self._tokens_of_driver(pod, volume)
            except NotFound as error:
                problems.append(error.message)
            if any(each.get("audience", "") == audience for each in tokens):
                return
        if problems:
            raise write.refuse(f"error validating audience {quote(audience)}: {aggregate(problems)}")
        asked = Attributes(
            attributes.user,
            "request-serviceaccounts-token-audience",
            resource=audience,
            namespace=attributes.namespace,
            name=attributes.name,
            version="v1",
        )
        if not await is_allowed(self._authorize, asked):
            raise write.refuse(
                f"audience {quote(audience)} not found in pod spec volume, {attributes.user.name} is not "
                "authorized to request tokens for this audience"
            )

    async def _tokens_of_driver(self, pod: Document, volume: Document) -> Sequence[Document]:
        """Returns the tokens that the CSI driver of a volume requests for the pod's account.

        Raises NotFound.
        """
        meta, source = pod["metadata"], volume
        claim_name = at(volume, "persistentVolumeClaim", "claimName")
        if at(volume, "ephemeral", "volumeClaimTemplate") is not None:
            claim_name = f"{meta['name']}-{volume['name']}"
        if claim_name is not None:
            claim = await _existing(self._claims, claim_name, meta["namespace"])
            source = (await _existing(self._volumes, at(claim, "spec", "volumeName") or ""))["spec"]
        driver = driver_of(source)
        found = await _existing(self._drivers, driver) if driver else {}
        return at(found, "spec", "tokenRequests") or ()


def _check_pod_status(write: _Write) -> None:
    if at(write.old, "spec", "nodeName") != write.node:
        raise write.refuse(
            f"{write.who} can only update pod status for pods with spec.nodeName set to itself"  # noqa: S608
        )
    if _labels(write.old) != _labels(write.new):
        raise write.refuse(f"{write.who} cannot update labels through pod status")
    before, after = (
        [
            (each.get("name"), each.get("resourceClaimName"))
            for each in at(pod, "status", "resourceClaimStatuses") or ()
        ]
        for pod in (write.old, write.new)
    )
    if before != after:
        raise write.refuse(f"{write.who} cannot update resource claim statues")
    before, after = (at(pod, "status", "extendedResourceClaimStatus") for pod in (write.old, write.new))
    if before != after:
        raise write.refuse(f"{write.who} cannot update extended resource claim status")


def driver_of(source: Document) -> str:
    """Returns the CSI driver of an inline or persistent volume; empty if it has none."""
    if source.get("csi") is not None:
        driver: str = source["csi"].get("driver", "")
        return driver
    return next((driver for kind, driver in _MIGRATED.items() if source.get(kind) is not None), "")


async def _existing(lister: Lister, name: str, namespace: str = "") -> Document:
    """Returns an existing object."""
    found = await lister.get_document(name, namespace)
    if found is None:
        group, plural = lister.group_resource
        served = lister.served
        raise NotFound(GroupResource(group, served.singular if served is not None else plural), name)
    return found


# ---- other resources


def reported_fields(gates: FeatureGates) -> frozenset[str]:
    """Returns the fields of a claim's status that a node may change."""
    recovers = gates.is_on("RecoverVolumeExpansionFailure")
    return _CLAIM_STATUS | _RESIZED_STATUS if recovers else _CLAIM_STATUS


def _check_claim(reported: frozenset[str], write: _Write) -> None:
    if write.attributes.subresource != "status":
        raise write.refuse("may only update PVC status")
    if write.operation is not Operation.UPDATE:
        raise write.refuse(f"unexpected operation {quote(write.operation.value)}")
    if _without(reported, write.new) != _without(reported, write.old):
        raise write.refuse(
            f"{write.who} is not allowed to update fields other than status.quantity and status.conditions"
        )


def _without(reported: frozenset[str], claim: Document) -> Document:
    """Returns a claim without the fields that a node may change, and those that change by themselves."""
    meta = {
        field: value
        for field, value in claim["metadata"].items()
        if field not in ("resourceVersion", "managedFields")
    }
    status = {field: value for field, value in (claim.get("status") or {}).items() if field not in reported}
    return {**claim, "metadata": meta, "status": status}


def _check_node(write: _Write) -> None:
    """Check that a node does not attract pods that are not meant for it."""
    name, who = write.attributes.name, write.who
    if name != write.node:
        raise write.refuse(f"{who} is not allowed to modify node {quote(name)}")
    source = at(write.new, "spec", "configSource")
    if write.operation is Operation.CREATE:
        if source is not None:
            raise write.refuse(f"{who} is not allowed to create pods with a non-nil configSource")
        if labels := _forbidden_labels(write):
            raise write.refuse(f"{who} is not allowed to set the following labels: {', '.join(labels)}")
    elif write.operation is Operation.UPDATE:
        if source is not None and source != at(write.old, "spec", "configSource"):
            raise write.refuse(f"{who} is not allowed to update configSource to a new non-nil configSource")
        if (at(write.new, "spec", "taints") or []) != (at(write.old, "spec", "taints") or []):
            raise write.refuse(f"{who} is not allowed to modify taints")
        before, after = (each["metadata"].get("ownerReferences") or [] for each in (write.old, write.new))
        if before != after:
            # Objects whose owners do not exist are deleted.
            raise write.refuse(f"{who} is not allowed to modify ownerReferences")
        if labels := _forbidden_labels(write):
            raise write.refuse(f"is not allowed to modify labels: {', '.join(labels)}")


def _labels(document: Document) -> Mapping[str, str]:
    return (document.get("metadata") or {}).get("labels") or {}


def _forbidden_labels(write: _Write) -> list[str]:
    """Returns the labels that a node changes in a write, but may not change."""
    before, after = _labels(write.old), _labels(write.new)
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    return sorted(filter(_is_forbidden, changed))


def _is_forbidden(key: str) -> bool:
    prefix, slash, _ = key.partition("/")
    domain = prefix if slash else ""
    if _is_in(domain, _RESTRICTED):
        return True
    is_kubelets = key in _KUBELET_LABELS or any(_is_in(domain, each) for each in _OF_KUBELETS)
    return not is_kubelets and any(_is_in(domain, each) for each in _OF_KUBERNETES)


def _is_in(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


def _check_lease(write: _Write) -> None:
    if write.attributes.namespace != LEASE_NAMESPACE:
        raise write.refuse(f"can only access leases in the {quote(LEASE_NAMESPACE)} system namespace")
    if write.attributes.name != write.node:
        raise write.refuse("can only access node lease with the same name as the requesting node")


def _check_csi_node(write: _Write) -> None:
    if write.attributes.name != write.node:
        raise write.refuse("can only access CSINode with the same name as the requesting node")


def _check_resource_slice(write: _Write) -> None:
    for operation, document in ((Operation.CREATE, write.new), (Operation.DELETE, write.old)):
        # Slices of 1.30 have no spec, and name the node themselves.
        if (
            write.operation is operation
            and (document.get("spec", document).get("nodeName") or "") != write.node
        ):
            raise write.refuse(
                f"can only {operation.value.lower()} ResourceSlice with the same NodeName as the requesting "
                "node"
            )


def _check_certificate_request(write: _Write) -> None:
    """Check that a node requests certificates only for itself."""
    spec = write.new.get("spec") or {}
    if write.operation is not Operation.CREATE or spec.get("signerName") not in _KUBELET_SIGNERS:
        return
    user = write.attributes.user.name
    block = next(pem_blocks(base64.b64decode(spec.get("request", ""))), None)
    if block is None or block.label != "CERTIFICATE REQUEST":
        raise write.refuse("unable to parse csr: PEM block type must be CERTIFICATE REQUEST")
    from cryptography.x509.oid import NameOID

    from apiserver.golang.x509_parsing import UNREADABLE, parse_request

    try:
        request = parse_request(block.content)
        names = [each.value for each in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    except UNREADABLE as error:
        raise write.refuse(f"unable to parse csr: asn1: structure error: {error}") from None
    # Go takes the last one.
    if names[-1:] != [user]:
        raise write.refuse(f"can only create a node CSR with CN={user}")
