"""What the Node authorizer lets a node do, and what it says. Row O03.

Source: k8s.io/kubernetes, plugin/pkg/auth/authorizer/node.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from apiserver.auth.authz.attributes import Attributes, Decision, PendingDecision, Selector, Verdict
from apiserver.auth.authz.node.authorizer import NodeAuthorizer, NodeOptions, node_options
from apiserver.auth.authz.node.graph import NodeGraph
from apiserver.auth.authz.node.references import pod_references, volume_references
from apiserver.auth.authz.rbac.default_roles import role_rules
from apiserver.meta.brand import Brand
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.vocabulary import Document, UserInfo

NODE: Final = UserInfo("system:node:n1", ("system:nodes", "system:authenticated"))
CONTAINER: Final = {
    "env": [
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "env-secret", "key": "k"}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "env-map", "key": "k"}}},
    ],
    "envFrom": [{"secretRef": {"name": "all-secret"}}, {"configMapRef": {"name": "all-map"}}],
}
POD: Final[Document] = {
    "metadata": {"name": "p", "namespace": "ns"},
    "spec": {
        "nodeName": "n1",
        "serviceAccountName": "sa",
        "imagePullSecrets": [{"name": "pull-secret"}],
        "containers": [CONTAINER],
        "initContainers": [{"envFrom": [{"secretRef": {"name": "init-secret"}}]}],
        "ephemeralContainers": [{"envFrom": [{"configMapRef": {"name": "debug-map"}}]}],
        "volumes": [
            {"name": "a", "secret": {"secretName": "volume-secret"}},
            {"name": "b", "configMap": {"name": "volume-map"}},
            {
                "name": "c",
                "projected": {
                    "sources": [
                        {"secret": {"name": "projected-secret"}},
                        {"configMap": {"name": "projected-map"}},
                    ]
                },
            },
            {"name": "d", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "e", "csi": {"driver": "x", "nodePublishSecretRef": {"name": "csi-secret"}}},
            {"name": "f", "azureFile": {"secretName": "azure-secret"}},
        ],
        "resourceClaims": [
            {"name": "gpu", "resourceClaimName": "own-claim"},
            {"name": "nic", "resourceClaimTemplateName": "t"},
            {"name": "not-yet", "resourceClaimTemplateName": "t"},
        ],
    },
    "status": {"resourceClaimStatuses": [{"name": "nic", "resourceClaimName": "made-claim"}]},
}
VOLUME: Final[Document] = {
    "metadata": {"name": "pv"},
    "spec": {
        "claimRef": {"namespace": "ns", "name": "claim"},
        "csi": {
            "nodeStageSecretRef": {"namespace": "storage", "name": "stage-secret"},
            "controllerPublishSecretRef": {"namespace": "storage", "name": "controller-secret"},
        },
    },
}


def graph() -> NodeGraph:
    """With a pod on n1, another on n2 that has nothing, and the volume of the first."""
    made = NodeGraph()
    made.put_pod(("ns", "p"), "n1", pod_references(POD))
    made.put_pod(("ns", "q"), "n2", frozenset())
    made.put_volume("pv", volume_references(VOLUME))
    made.put_volume("unbound", volume_references({"spec": {}}))
    made.put_bound("volumeattachments", ("", "va"), "n1")
    made.put_bound("volumeattachments", ("", "vb"), "n2")
    made.put_bound("resourceslices", ("", "slice"), "n1")
    made.put_bound("podcertificaterequests", ("ns", "pcr"), "n1")
    made.put_bound("podcertificaterequests", ("ns", "of-n2"), "n2")
    return made


AUTHORIZER: Final = NodeAuthorizer(graph(), role_rules(Brand(), "system:node"), Brand().group)
RELATED: Final = "no relationship found between node 'n1' and this object"
ONE: Final = "can only get individual resources of this type"
YES: Final = None


def asked(
    request: str, *, namespace: str = "ns", field_selector: Selector = "", user: UserInfo = NODE
) -> Attributes:
    """request: `VERB [GROUP/]RESOURCE[:SUBRESOURCE] [NAME]`."""
    verb, what, name = (*request.split(), "")[:3]
    group, _, resource = what.rpartition("/")
    resource, _, subresource = resource.partition(":")
    where = "" if resource in CLUSTER else namespace
    return Attributes(user, verb, True, "", group, resource, subresource, where, name, "v1", field_selector)


CLUSTER: Final = (
    "nodes",
    "persistentvolumes",
    "volumeattachments",
    "csinodes",
    "resourceslices",
    "runtimeclasses",
)
# Nothing: allowed; a text: not allowed, for that reason.
DECISIONS: Final[dict[str, str | None]] = {
    **{f"get secrets {kind}-secret": YES for kind in ("env", "all", "pull", "init", "volume", "projected")},
    **{f"get secrets {kind}-secret": YES for kind in ("csi", "azure")},
    **{f"get configmaps {kind}-map": YES for kind in ("env", "all", "debug", "volume", "projected")},
    "list secrets env-secret": YES,
    "watch configmaps env-map": YES,
    "list secrets": "No Object name found",
    "watch configmaps": "No Object name found",
    "get secrets other": RELATED,
    "get configmaps env-secret": RELATED,
    "get secrets env-map": RELATED,
    "update secrets env-secret": "can only read resources of this type",
    "delete configmaps env-map": "can only read resources of this type",
    "get secrets:status env-secret": "cannot read subresource",
    "get persistentvolumeclaims claim": YES,
    "get persistentvolumeclaims p-scratch": YES,
    "get persistentvolumeclaims scratch": RELATED,
    "list persistentvolumeclaims": ONE,
    "patch persistentvolumeclaims:status claim": YES,
    "update persistentvolumeclaims:status other": RELATED,
    "get persistentvolumeclaims:status claim": "can only get/update/patch this type",
    "get persistentvolumeclaims:x claim": "cannot get subresource",
    "update persistentvolumeclaims claim": ONE,
    "get persistentvolumes pv": YES,
    "get persistentvolumes unbound": RELATED,
    "list persistentvolumes": ONE,
    "get resource.k8s.io/resourceclaims own-claim": YES,
    "get resource.k8s.io/resourceclaims made-claim": YES,
    "get resource.k8s.io/resourceclaims nic": RELATED,
    "get resourceclaims own-claim": "",
    "get storage.k8s.io/volumeattachments va": YES,
    "get storage.k8s.io/volumeattachments vb": RELATED,
    "watch storage.k8s.io/volumeattachments va": ONE,
    "create serviceaccounts:token sa": YES,
    "create serviceaccounts:token default": RELATED,
    "create serviceaccounts:token": "can only create tokens for individual service accounts",
    "create serviceaccounts sa": "can only create token subresource of serviceaccount",
    "get serviceaccounts sa": YES,
    "get serviceaccounts default": RELATED,
    "get serviceaccounts:token sa": "can only create tokens for individual service accounts",
    "get storage.k8s.io/csinodes n1": YES,
    "create storage.k8s.io/csinodes": YES,
    "get storage.k8s.io/csinodes n2": "can only access CSINode with the same name as the requesting node",
    "list storage.k8s.io/csinodes": "can only get, create, update, patch, or delete a CSINode",
    "update storage.k8s.io/csinodes:status n1": "cannot authorize CSINode subresources",
    "create resource.k8s.io/resourceslices": YES,
    "update resource.k8s.io/resourceslices slice": YES,
    "delete resource.k8s.io/resourceslices other": RELATED,
    "get resource.k8s.io/resourceslices:status slice": "cannot authorize ResourceSlice subresources",
    "list resource.k8s.io/resourceslices": (
        "can only list/watch/deletecollection resourceslices with nodeName field selector"
    ),
    "get nodes n1": YES,
    "watch nodes n1": YES,
    "get nodes n2": "node 'n1' cannot read 'n2', only its own Node object",
    "list nodes": "node 'n1' cannot read all nodes, only its own Node object",
    "create nodes": YES,
    "patch nodes n2": YES,
    "patch nodes:status n1": YES,
    "get nodes:status n1": "",
    "delete nodes n1": "",
    "get nodes:proxy n1": "",
    "get pods p": YES,
    "get pods q": RELATED,
    "list pods": "can only list/watch pods with spec.nodeName field selector",
    "list pods p": YES,
    "list pods q": RELATED,
    "create pods": YES,
    "delete pods q": YES,
    "update pods p": "",
    "patch pods:status p": YES,
    "get pods:status p": "",
    "create pods:eviction p": YES,
    "create pods:binding p": "",
    "get pods:log p": "",
    "create pods:exec p": "",
    "list services": YES,
    "create events": YES,
    "create certificates.k8s.io/certificatesigningrequests": YES,
    "update certificates.k8s.io/certificatesigningrequests:approval x": "",
    "watch node.k8s.io/runtimeclasses": YES,
    "create authentication.k8s.io/tokenreviews": YES,
    "create authorization.k8s.io/subjectaccessreviews": YES,
    "list deployments": "",
    "impersonate users": "",
}


@pytest.mark.parametrize(("request_", "reason"), DECISIONS.items(), ids=DECISIONS)
def test_what_a_node_may_do(request_: str, reason: str | None) -> None:
    decision = Decision.ALLOW if reason is YES else Decision.NO_OPINION
    assert AUTHORIZER(asked(request_)) == Verdict(decision, reason or "")


LEASES: Final = {
    "its own": ("get coordination.k8s.io/leases n1", "kube-node-lease", YES),
    "one that it creates": ("create coordination.k8s.io/leases", "kube-node-lease", YES),
    "another's": (
        "update coordination.k8s.io/leases n2",
        "kube-node-lease",
        "can only access node lease with the same name as the requesting node",
    ),
    "elsewhere": (
        "get coordination.k8s.io/leases n1",
        "default",
        'can only access leases in the "kube-node-lease" system namespace',
    ),
    "all": (
        "list coordination.k8s.io/leases",
        "kube-node-lease",
        "can only get, create, update, patch, or delete a node lease",
    ),
}


@pytest.mark.parametrize(("request_", "namespace", "reason"), LEASES.values(), ids=LEASES)
def test_leases(request_: str, namespace: str, reason: str | None) -> None:
    decision = Decision.ALLOW if reason is YES else Decision.NO_OPINION
    assert AUTHORIZER(asked(request_, namespace=namespace)) == Verdict(decision, reason or "")


SELECTORS: Final = {
    "pods of the node": ("list pods", "spec.nodeName=n1", True),
    "of the node, and more": ("watch pods", "status.phase!=Failed,spec.nodeName==n1", True),
    "pods of another": ("list pods", "spec.nodeName=n2", False),
    "pods of all others": ("list pods", "spec.nodeName!=n1", False),
    "what cannot be read": ("list pods", "spec.nodeName=n1,(", False),
    "slices of the node": ("deletecollection resource.k8s.io/resourceslices", "spec.nodeName=n1", True),
    "certificate requests of the node, which are not served": (
        "list certificates.k8s.io/podcertificaterequests",
        "spec.nodeName=n1",
        False,
    ),
    "slices of the node, at 1.30": ("list resource.k8s.io/resourceslices", "nodeName=n1", True),
    "slices of another, at 1.30": ("list resource.k8s.io/resourceslices", "nodeName=n2", False),
    "slices of another": ("list resource.k8s.io/resourceslices", "spec.nodeName=n2", False),
}


@pytest.mark.parametrize(("request_", "selector", "is_allowed"), SELECTORS.values(), ids=SELECTORS)
def test_field_selectors(request_: str, selector: str, is_allowed: bool) -> None:
    verdict = AUTHORIZER(asked(request_, namespace="", field_selector=selector))
    assert isinstance(verdict, Verdict)
    assert (verdict.decision is Decision.ALLOW) is is_allowed


# What a node may do if PodCertificateRequests are served.
BY_NODE: Final = "can only list/watch podcertificaterequests with nodeName field selector"
STATUS_OF_REQUESTS: Final = "nodes may not access the status subresource of PodCertificateRequests"
POD_CERTIFICATES: Final = {
    "a new one": ("create podcertificaterequests", "", YES),
    "those of the node": ("list podcertificaterequests", "spec.nodeName=n1", YES),
    "those of another": ("watch podcertificaterequests", "spec.nodeName=n2", BY_NODE),
    "all": ("list podcertificaterequests", "", BY_NODE),
    "one of the node": ("get podcertificaterequests pcr", "", YES),
    "one of another": ("get podcertificaterequests of-n2", "", RELATED),
    "no name": ("get podcertificaterequests", "", "No Object name found"),
    "a change": ("update podcertificaterequests pcr", "", "nodes may not update podcertificaterequests"),
    "a deletion": ("delete podcertificaterequests pcr", "", "nodes may not delete podcertificaterequests"),
    "a status": ("update podcertificaterequests:status pcr", "", STATUS_OF_REQUESTS),
    "bundles": ("list clustertrustbundles", "", ""),
}


@pytest.mark.parametrize(("request_", "selector", "reason"), POD_CERTIFICATES.values(), ids=POD_CERTIFICATES)
def test_certificates_of_pods(request_: str, selector: str, reason: str | None) -> None:
    rules = role_rules(Brand(), "system:node", {"PodCertificateRequest"}.__contains__)
    verb, _, what = request_.partition(" ")
    attributes = asked(f"{verb} certificates.k8s.io/{what}", field_selector=selector)
    for is_served in (True, False):
        authorizer = NodeAuthorizer(
            graph(), rules, Brand().group, NodeOptions(requests_pod_certificates=is_served)
        )
        allowed = reason is YES and is_served
        expected = Verdict(Decision.ALLOW if allowed else Decision.NO_OPINION, (reason or "") * is_served)
        assert authorizer(attributes) == expected


def test_nodes_read_service_accounts_while_a_gate_lets_them() -> None:
    refused = Verdict(Decision.NO_OPINION, "not allowed to get service accounts")
    for reads_accounts, verdict in ((True, Verdict(Decision.ALLOW)), (False, refused)):
        authorizer = NodeAuthorizer(graph(), (), Brand().group, NodeOptions(reads_accounts=reads_accounts))
        assert authorizer(asked("get serviceaccounts sa")) == verdict
        assert authorizer(asked("create serviceaccounts:token sa")) == Verdict(Decision.ALLOW)


# By the gates that are set: release, gates, options.
GATES: Final[dict[str, tuple[int, dict[str, bool], NodeOptions]]] = {
    "1.30": (30, {}, NodeOptions(needs_selectors=False, reads_accounts=False)),
    "1.33": (33, {}, NodeOptions(reads_accounts=False)),
    "1.36": (36, {}, NodeOptions()),
    "certificates of pods": (
        36,
        {"PodCertificateRequest": True, "KubeletServiceAccountTokenForCredentialProviders": False},
        NodeOptions(requests_pod_certificates=True),
    ),
    "no accounts": (
        36,
        {"KubeletServiceAccountTokenForCredentialProviders": False},
        NodeOptions(reads_accounts=False),
    ),
}


@pytest.mark.parametrize(("minor", "gates", "options"), GATES.values(), ids=GATES)
def test_gates_decide_what_nodes_may_do(minor: int, gates: dict[str, bool], options: NodeOptions) -> None:
    assert node_options(FeatureGates(minor, gates).is_on) == options


# What a node may do with CSINodes if their status tells what is wrong with their storage.
HEALTH: Final = {
    "patch csinodes:status n1": YES,
    "update csinodes:status n1": YES,
    "get csinodes:status n1": "cannot authorize CSINode subresources",
    "patch csinodes:status n2": "can only access CSINode with the same name as the requesting node",
    "patch csinodes:scale n1": "cannot authorize CSINode subresources",
    "get csinodes n1": YES,
}


@pytest.mark.parametrize(("request_", "reason"), HEALTH.items(), ids=HEALTH)
def test_health_of_storage(request_: str, reason: str | None) -> None:
    rules = role_rules(Brand(), "system:node")
    authorizer = NodeAuthorizer(graph(), rules, Brand().group, NodeOptions(tells_health=True))
    verb, _, what = request_.partition(" ")
    decision = Decision.ALLOW if reason is YES else Decision.NO_OPINION
    assert authorizer(asked(f"{verb} storage.k8s.io/{what}")) == Verdict(decision, reason or "")


# What a node may read while the gate AuthorizeNodeWithSelectors is off.
EVERYTHING: Final = (
    "list pods",
    "watch pods",
    "get pods p1",
    "list nodes",
    "get nodes n2",
    "list resource.k8s.io/resourceslices",
)


@pytest.mark.parametrize("request_", EVERYTHING)
def test_without_selectors_nodes_read_more_than_what_is_theirs(request_: str) -> None:
    rules = role_rules(Brand(), "system:node")
    for needs_selectors, decision in ((False, Decision.ALLOW), (True, Decision.NO_OPINION)):
        options = NodeOptions(needs_selectors=needs_selectors)
        authorizer = NodeAuthorizer(graph(), rules, Brand().group, options)
        verdict = authorizer(asked(request_))
        assert isinstance(verdict, Verdict)
        assert verdict.decision is decision


NOT_NODES: Final = {
    "no group": UserInfo("system:node:n1", ("system:authenticated",)),
    "another name": UserInfo("n1", ("system:nodes",)),
    "another node": UserInfo("system:node:n2", ("system:nodes",)),
    "case counts": UserInfo("system:node:N1", ("system:nodes",)),
}


@pytest.mark.parametrize("user", NOT_NODES.values(), ids=NOT_NODES)
def test_nobody_else_may_do_what_a_node_may(user: UserInfo) -> None:
    verdict = AUTHORIZER(asked("get secrets env-secret", user=user))
    assert isinstance(verdict, Verdict)
    assert verdict.decision is Decision.NO_OPINION


def test_a_node_without_a_name_may_do_nothing() -> None:
    nobody = UserInfo("system:node:", ("system:nodes",))
    assert AUTHORIZER(asked("list services", user=nobody)) == Verdict(
        Decision.NO_OPINION, 'unknown node for user "system:node:"'
    )


# ---- the graph


def test_secrets_of_volumes_are_those_that_kubelets_need() -> None:
    found = graph()
    assert found.is_related("n1", "secrets", "storage", "stage-secret")
    assert not found.is_related("n2", "secrets", "storage", "stage-secret")
    assert not found.is_related("n1", "secrets", "storage", "controller-secret")
    found.put_volume("pv", None)
    assert not found.is_related("n1", "secrets", "storage", "stage-secret")


def test_what_a_pod_referred_to_is_forgotten_with_the_last_pod_that_did() -> None:
    found = NodeGraph()
    references = pod_references(POD)
    for name in ("a", "b"):
        found.put_pod(("ns", name), "n1", references)
    found.remove_pod(("ns", "a"))
    assert found.is_related("n1", "secrets", "ns", "env-secret")
    found.put_pod(("ns", "b"), "n1", frozenset())
    assert not found.is_related("n1", "secrets", "ns", "env-secret")
    found.remove_pod(("ns", "b"))
    found.remove_pod(("ns", "b"))
    assert found.is_empty


def test_a_mirror_pod_gives_its_node_nothing() -> None:
    mirror = {"kubernetes.io/config.mirror": "x"}
    assert pod_references(POD | {"metadata": POD["metadata"] | {"annotations": mirror}}) == frozenset()


JUNK: Final[dict[str, Any]] = {
    "nothing": {},
    "lists for objects": {"metadata": [], "spec": [1], "status": "x"},
    "objects for lists": {"spec": {"volumes": {}, "containers": {"a": 1}, "imagePullSecrets": "x"}},
    "numbers for names": {"spec": {"serviceAccountName": 7, "volumes": [{"secret": {"secretName": 7}}, 7]}},
    "null": {"spec": {"containers": None, "volumes": [None, {"projected": None, "ephemeral": None}]}},
}


@pytest.mark.parametrize("pod", JUNK.values(), ids=JUNK)
def test_whatever_is_stored_can_be_read(pod: Any) -> None:
    assert pod_references(pod) == frozenset()
    assert volume_references(pod) is None


async def test_the_first_question_waits_for_the_graph() -> None:
    empty, is_filled = NodeGraph(), asyncio.Event()

    async def complete(deadline: float) -> None:
        await is_filled.wait()
        empty.is_complete = True

    empty.complete = complete
    authorizer = NodeAuthorizer(empty, (), Brand().group)
    answers = [authorizer(asked(f"get secrets {name}")) for name in ("env-secret", "other")]
    deciding = [asyncio.ensure_future(each.decide()) for each in answers if isinstance(each, PendingDecision)]
    assert len(deciding) == len(answers)
    assert isinstance(authorizer(asked("get nodes n1")), Verdict), "what needs no graph does not wait"
    empty.put_pod(("ns", "p"), "n1", pod_references(POD))
    is_filled.set()
    verdicts = await asyncio.gather(*deciding)
    assert [each.decision for each in verdicts] == [Decision.ALLOW, Decision.NO_OPINION]
    assert isinstance(authorizer(asked("get secrets env-secret")), Verdict)
