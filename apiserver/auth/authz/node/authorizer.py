"""Decides what a node may do (row O03).

A node reads the objects that its pods need, one at a time; pods by a selector of its name; and its own
Node, Lease and CSINode. Everything else is the same for all nodes, by the rules of the role `system:node`.
`NodeRestriction` checks the content of objects that a node writes, at admission.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from apiserver.auth.authz.attributes import NO_OPINION, Attributes, Decision, PendingDecision, Verdict
from apiserver.auth.authz.node.graph import NodeGraph
from apiserver.auth.authz.node.identity import node_of
from apiserver.auth.authz.rbac.rules import PolicyRule
from apiserver.auth.authz.rule_resolver import RuleSet
from apiserver.auth.authz.selectors import requires_field
from apiserver.golang.quoting import go_quote
from apiserver.meta.vocabulary import GroupResource, UserInfo

LEASE_NAMESPACE: Final = "kube-node-lease"
_ALLOW: Final = Verdict(Decision.ALLOW)
_READ: Final = frozenset(("get", "list", "watch"))
_OWN: Final = frozenset(("get", "create", "update", "patch", "delete"))


class NodeOptions(NamedTuple):
    """The permissions of nodes that depend on the gates of a release.

    tells_health: write the status of their CSINodes. needs_selectors: read only their own Nodes, Pods and
    ResourceSlices, not all. reads_accounts: read the service accounts of their pods.
    requests_pod_certificates: create and read PodCertificateRequests.
    """

    tells_health: bool = False
    needs_selectors: bool = True
    reads_accounts: bool = True
    requests_pod_certificates: bool = False


DEFAULT_OPTIONS: Final = NodeOptions()


def node_options(is_on: Callable[[str], bool]) -> NodeOptions:
    """Returns the options of the node authorizer for feature gates. is_on: returns whether a feature gate is
    on.
    """
    needs_selectors, has_requests = is_on("AuthorizeNodeWithSelectors"), is_on("PodCertificateRequest")
    return NodeOptions(
        tells_health=is_on("CSIVolumeHealth"),
        needs_selectors=needs_selectors,
        reads_accounts=has_requests or is_on("KubeletServiceAccountTokenForCredentialProviders"),
        requests_pod_certificates=has_requests and needs_selectors,
    )


class NodeAuthorizer:
    """The Node authorizer: an `Authorizer` with its `RuleResolver` (`rules_of`).

    rules: those of the role `system:node`. group: returns a group in the brand's domain.
    """

    def __init__(
        self,
        graph: NodeGraph,
        rules: Sequence[PolicyRule],
        group: Callable[[str], str],
        options: NodeOptions = DEFAULT_OPTIONS,
    ) -> None:
        self._graph, self._options = graph, options
        self._rules = tuple(rules)
        related = self._related_object
        self._by_resource: dict[GroupResource, Callable[[str, Attributes], Verdict | PendingDecision]] = {
            GroupResource("", "secrets"): self._namespaced_object,
            GroupResource("", "configmaps"): self._namespaced_object,
            GroupResource("", "persistentvolumeclaims"): self._claim,
            GroupResource("", "persistentvolumes"): related,
            GroupResource(group("resource"), "resourceclaims"): related,
            GroupResource(group("storage"), "volumeattachments"): related,
            GroupResource("", "serviceaccounts"): self._service_account,
            GroupResource(group("coordination"), "leases"): _lease,
            GroupResource(group("storage"), "csinodes"): partial(_csi_node, options.tells_health),
            GroupResource(group("resource"), "resourceslices"): self._slice,
            GroupResource(group("certificates"), "podcertificaterequests"): self._pod_certificate_request,
        }
        if options.needs_selectors:
            self._by_resource |= {GroupResource("", "nodes"): _node, GroupResource("", "pods"): self._pod}

    def __call__(self, attributes: Attributes) -> Verdict | PendingDecision:
        node = node_of(attributes.user)
        if node is None:
            return NO_OPINION
        if not node:
            return _no(f"unknown node for user {go_quote(attributes.user.name)}")
        if attributes.is_resource:
            rule = self._by_resource.get(GroupResource(attributes.group, attributes.resource))
            if rule is not None:
                return rule(node, attributes)
        return self._by_rules(attributes)

    def _by_rules(self, attributes: Attributes) -> Verdict:
        return _ALLOW if any(each.allows(attributes) for each in self._rules) else NO_OPINION

    def rules_of(self, user: UserInfo, namespace: str, words_max: float) -> RuleSet:
        if node_of(user) is None:
            return RuleSet()
        return RuleSet(is_incomplete=True, problems=["node authorizer does not support user rule resolution"])

    # ---- objects that pods need

    def _related(self, node: str, attributes: Attributes) -> Verdict | PendingDecision:
        if not attributes.name:
            return _no("No Object name found")
        graph = self._graph
        if not graph.is_complete and graph.complete is not None:
            return PendingDecision(partial(self._related_later, node, attributes))
        if graph.is_related(node, attributes.resource, attributes.namespace, attributes.name):
            return _ALLOW
        return _no(f"no relationship found between node '{node}' and this object")

    async def _related_later(self, node: str, attributes: Attributes, deadline: float) -> Verdict:
        assert self._graph.complete is not None
        try:
            await self._graph.complete(deadline)
        except TimeoutError:
            return _no("the references of pods are not known yet")
        verdict = self._related(node, attributes)
        # The graph may be lost again meanwhile, with the store's watch: then what it has counts.
        return verdict if isinstance(verdict, Verdict) else await verdict.decide(deadline)

    def _namespaced_object(self, node: str, attributes: Attributes) -> Verdict | PendingDecision:
        if attributes.verb not in _READ:
            return _no("can only read resources of this type")
        if attributes.subresource:
            return _no("cannot read subresource")
        if not attributes.namespace:
            return _no("can only read namespaced object of this type")
        return self._related(node, attributes)

    def _related_object(self, node: str, attributes: Attributes) -> Verdict | PendingDecision:
        if attributes.verb != "get":
            return _no("can only get individual resources of this type")
        if attributes.subresource:
            return _no("cannot get subresource")
        return self._related(node, attributes)

    def _claim(self, node: str, attributes: Attributes) -> Verdict | PendingDecision:
        if attributes.subresource != "status":
            return self._related_object(node, attributes)
        if attributes.verb not in ("update", "patch"):
            return _no("can only get/update/patch this type")
        return self._related(node, attributes)

    def _service_account(self, node: str, attributes: Attributes) -> Verdict | PendingDecision:
        if attributes.verb == "get" and not attributes.subresource:
            if not self._options.reads_accounts:
                return _no("not allowed to get service accounts")
            return self._namespaced_object(node, attributes)
        if attributes.verb != "create" or not attributes.name:
            return _no("can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return _no("can only create token subresource of serviceaccount")
        return self._related(node, attributes)

    def _slice(self, node: str, attributes: Attributes) -> Verdict | PendingDecision:
        if attributes.subresource:
            return _no("cannot authorize ResourceSlice subresources")
        match attributes.verb:
            case "create":
                return _ALLOW  # NodeRestriction looks at the node in it.
            case "get" | "update" | "patch" | "delete":
                return self._related(node, attributes)
            case "watch" | "list" | "deletecollection":
                if not self._options.needs_selectors:
                    return _ALLOW
                # Slices of 1.30 have no spec; other releases refuse the second.
                if any(requires_field(attributes, each, node) for each in ("spec.nodeName", "nodeName")):
                    return _ALLOW
                return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")
        return _no(
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, "
            "patch, delete, deletecollection"
        )

    def _pod_certificate_request(self, node: str, attributes: Attributes) -> Verdict | PendingDecision:
        if not self._options.requests_pod_certificates:
            return NO_OPINION
        if attributes.subresource:
            return _no("nodes may not access the status subresource of PodCertificateRequests")
        match attributes.verb:
            case "create":
                return _ALLOW  # NodeRestriction looks at the node and the pod in it.
            case "get":
                return self._related(node, attributes)
            case "list" | "watch":
                if requires_field(attributes, "spec.nodeName", node):
                    return _ALLOW
                return _no("can only list/watch podcertificaterequests with nodeName field selector")
        return _no(f"nodes may not {attributes.verb} podcertificaterequests")

    def _pod(self, node: str, attributes: Attributes) -> Verdict | PendingDecision:
        match attributes.subresource, attributes.verb:
            case "", "get":
                return self._related(node, attributes)
            case "", "list" | "watch":
                if requires_field(attributes, "spec.nodeName", node):
                    return _ALLOW
                if attributes.name:
                    return self._related(node, attributes)
                return _no("can only list/watch pods with spec.nodeName field selector")
            # NodeRestriction lets nodes write only mirror pods, and the status and evictions of pods on them.
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return _ALLOW
        return NO_OPINION


# ---- what belongs to the node itself


def _lease(node: str, attributes: Attributes) -> Verdict:
    if attributes.verb not in _OWN:
        return _no("can only get, create, update, patch, or delete a node lease")
    if attributes.namespace != LEASE_NAMESPACE:
        return _no(f"can only access leases in the {go_quote(LEASE_NAMESPACE)} system namespace")
    # The path of a create has no name: NodeRestriction checks it.
    if attributes.verb != "create" and attributes.name != node:
        return _no("can only access node lease with the same name as the requesting node")
    return _ALLOW


def _csi_node(tells_health: bool, node: str, attributes: Attributes) -> Verdict:
    if attributes.verb not in _OWN:
        return _no("can only get, create, update, patch, or delete a CSINode")
    writes_health = tells_health and attributes.subresource == "status"
    if attributes.subresource and not (writes_health and attributes.verb in ("update", "patch")):
        return _no("cannot authorize CSINode subresources")
    if attributes.verb != "create" and attributes.name != node:
        return _no("can only access CSINode with the same name as the requesting node")
    return _ALLOW


def _node(node: str, attributes: Attributes) -> Verdict:
    match attributes.subresource, attributes.verb:
        # NodeRestriction has nodes write themselves only.
        case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
            return _ALLOW
        case "", "get" | "list" | "watch":
            # By the name alone: a kubelet reads its Node before it exists.
            if attributes.name == node:
                return _ALLOW
            if not attributes.name:
                return _no(f"node '{node}' cannot read all nodes, only its own Node object")
            return _no(f"node '{node}' cannot read '{attributes.name}', only its own Node object")
    return NO_OPINION


def _no(reason: str) -> Verdict:
    return Verdict(Decision.NO_OPINION, reason)
