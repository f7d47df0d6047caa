"""The default cluster roles of users, and of components other than controllers. Source: policy.go."""

from __future__ import annotations

from typing import Final

from apiserver.auth.authz.rbac.defaults.notation import (
    EVENTS,
    READ,
    READ_UPDATE,
    READ_WRITE,
    WRITE,
    Bindings,
    DefaultRole,
    Roles,
    RuleRow,
    accounts,
    get_urls,
    groups,
    role,
    users,
)
from apiserver.meta.vocabulary import AUTHENTICATED, MASTERS, UNAUTHENTICATED

# ---- anybody

_HEALTH: Final = "/healthz /livez /readyz"

_EVERYBODY: Final[Roles] = {
    "cluster-admin": role(RuleRow("*", "*", "*"), RuleRow("*", urls="*")),
    "system:discovery": role(
        get_urls(f"{_HEALTH} /version /version/ /openapi /openapi/* /api /api/* /apis /apis/*")
    ),
    "system:monitoring": role(
        get_urls(f"{_HEALTH} /healthz/* /livez/* /readyz/* /metrics /metrics/slis"),
        RuleRow("get", "core", "nodes/metrics"),
    ),
    "system:basic-user": role(
        RuleRow("create", "authorization.", "selfsubjectaccessreviews selfsubjectrulesreviews"),
        RuleRow("create", "authentication.", "selfsubjectreviews"),
    ),
    "system:public-info-viewer": role(get_urls(f"{_HEALTH} /version /version/")),
    "system:service-account-issuer-discovery": role(
        get_urls(
            "/.well-known/openid-configuration /.well-known/openid-configuration/ "
            "/openid/v1/jwks /openid/v1/jwks/"
        )
    ),
}

# ---- who works in a namespace

_ENTERED: Final = "pods/attach pods/exec pods/portforward pods/proxy"

_NAMESPACE_USERS: Final[Roles] = {
    "admin": DefaultRole(is_aggregate=True),
    "edit": DefaultRole(is_aggregate=True, aggregated_to="admin"),
    "view": DefaultRole(is_aggregate=True, aggregated_to="edit"),
    "system:aggregate-to-admin": DefaultRole(
        (
            RuleRow("create", "authorization.", "localsubjectaccessreviews"),
            RuleRow(READ_WRITE, "rbac.authorization.", "roles rolebindings"),
        ),
        aggregated_to="admin",
    ),
    "system:aggregate-to-edit": DefaultRole(
        (
            # To read these is to become somebody else, which viewers must not.
            RuleRow(READ, "core", f"{_ENTERED} secrets services/proxy"),
            RuleRow("impersonate", "core", "serviceaccounts"),
            RuleRow(WRITE, "core", f"pods {_ENTERED}"),
            RuleRow("create", "core", "pods/eviction"),
            RuleRow(
                WRITE,
                "core",
                "replicationcontrollers replicationcontrollers/scale serviceaccounts services services/proxy "
                "persistentvolumeclaims configmaps secrets",
            ),
            RuleRow("create", "core", "serviceaccounts/token"),
            RuleRow(WRITE, "core events.", "events"),
            RuleRow(
                WRITE,
                "apps",
                "statefulsets statefulsets/scale daemonsets deployments deployments/scale "
                "deployments/rollback replicasets replicasets/scale",
            ),
            RuleRow(WRITE, "autoscaling", "horizontalpodautoscalers"),
            RuleRow(WRITE, "batch", "jobs cronjobs"),
            RuleRow(
                WRITE,
                "extensions",
                "daemonsets deployments deployments/scale deployments/rollback ingresses replicasets "
                "replicasets/scale replicationcontrollers/scale networkpolicies",
            ),
            RuleRow(WRITE, "policy", "poddisruptionbudgets"),
            RuleRow(WRITE, "networking.", "networkpolicies ingresses"),
            RuleRow(READ_WRITE, "coordination.", "leases"),
            RuleRow(WRITE, "resource.", "resourceclaims resourceclaimtemplates"),
        ),
        aggregated_to="edit",
    ),
    "system:aggregate-to-view": DefaultRole(
        (
            RuleRow(
                READ,
                "core",
                "pods replicationcontrollers replicationcontrollers/scale serviceaccounts services "
                "services/status endpoints persistentvolumeclaims persistentvolumeclaims/status configmaps",
            ),
            RuleRow(
                READ,
                "core",
                "limitranges resourcequotas bindings pods/status resourcequotas/status namespaces/status "
                "replicationcontrollers/status pods/log",
            ),
            # Held in one namespace, it is about that one.
            RuleRow(READ, "core", "namespaces"),
            RuleRow(READ, "core events.", "events"),
            RuleRow(READ, "discovery.", "endpointslices"),
            RuleRow(
                READ,
                "apps",
                "controllerrevisions statefulsets statefulsets/status statefulsets/scale daemonsets "
                "daemonsets/status deployments deployments/status deployments/scale replicasets "
                "replicasets/status replicasets/scale",
            ),
            RuleRow(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
            RuleRow(READ, "batch", "jobs jobs/status cronjobs cronjobs/status"),
            RuleRow(
                READ,
                "extensions",
                "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses "
                "ingresses/status replicasets replicasets/scale replicasets/status "
                "replicationcontrollers/scale networkpolicies",
            ),
            RuleRow(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
            RuleRow(READ, "networking.", "networkpolicies ingresses ingresses/status"),
            RuleRow(READ, "resource.", "resourceclaims resourceclaims/status resourceclaimtemplates"),
        ),
        aggregated_to="view",
    ),
}

# ---- nodes

_REQUESTS: Final = RuleRow("create get list watch", "certificates.", "certificatesigningrequests")

_NODES: Final[Roles] = {
    # Held by no one: what a node may do is the business of the Node authorizer.
    "system:node": role(
        RuleRow("create", "authentication.", "tokenreviews"),
        RuleRow("create", "authorization.", "subjectaccessreviews localsubjectaccessreviews"),
        RuleRow(READ, "core", "services"),
        RuleRow("create get list watch", "core", "nodes"),
        RuleRow("update patch", "core", "nodes/status"),
        RuleRow("update patch", "core", "nodes"),
        EVENTS,
        RuleRow(READ, "core", "pods"),
        RuleRow("create delete", "core", "pods"),
        RuleRow("update patch", "core", "pods/status"),
        RuleRow("create", "core", "pods/eviction"),
        RuleRow(READ, "core", "secrets configmaps"),
        RuleRow("get", "core", "persistentvolumeclaims persistentvolumes"),
        RuleRow("get", "core", "endpoints"),
        _REQUESTS,
        RuleRow("get create update patch delete", "coordination.", "leases"),
        RuleRow("get", "storage.", "volumeattachments"),
        RuleRow("create", "core", "serviceaccounts/token"),
        RuleRow("get update patch", "core", "persistentvolumeclaims/status"),
        RuleRow(READ, "storage.", "csidrivers"),
        RuleRow("get create update patch delete", "storage.", "csinodes"),
        RuleRow(READ, "node.", "runtimeclasses"),
        RuleRow("get", "resource.", "resourceclaims"),
        RuleRow("deletecollection", "resource.", "resourceslices"),
        RuleRow("get", "core", "serviceaccounts"),
    ),
    "system:node-problem-detector": role(
        RuleRow("get", "core", "nodes"), RuleRow("patch", "core", "nodes/status"), EVENTS
    ),
    "system:node-bootstrapper": role(_REQUESTS),
    "system:node-proxier": role(
        RuleRow("list watch", "core", "services endpoints"),
        RuleRow(READ, "core", "nodes"),
        EVENTS,
        RuleRow("list watch", "networking.", "servicecidrs"),
        RuleRow("list watch", "discovery.", "endpointslices"),
    ),
    "system:kubelet-api-admin": role(
        RuleRow(READ, "core", "nodes"),
        RuleRow("proxy", "core", "nodes"),
        RuleRow("*", "core", "nodes/proxy nodes/metrics nodes/stats nodes/log"),
        RuleRow("*", "core", "nodes/pods nodes/healthz nodes/configz"),
    ),
}

# ---- the cluster's own programs

_TOKEN_REVIEWS: Final = RuleRow("create", "authentication.", "tokenreviews")
_ACCESS_REVIEWS: Final = RuleRow("create", "authorization.", "subjectaccessreviews")

_PROGRAMS: Final[Roles] = {
    "system:heapster": role(
        RuleRow(READ, "core", "events pods nodes namespaces"), RuleRow(READ, "extensions", "deployments")
    ),
    "system:auth-delegator": role(_TOKEN_REVIEWS, _ACCESS_REVIEWS),
    "system:kube-aggregator": role(RuleRow(READ, "core", "services endpoints")),
    "system:kube-controller-manager": role(
        EVENTS,
        RuleRow("create", "coordination.", "leases"),
        RuleRow("get update", "coordination.", "leases", names="kube-controller-manager"),
        RuleRow("create", "core", "secrets serviceaccounts"),
        RuleRow("delete", "core", "secrets"),
        RuleRow("get", "core", "namespaces secrets serviceaccounts configmaps"),
        RuleRow("update", "core", "secrets serviceaccounts"),
        _TOKEN_REVIEWS,
        _ACCESS_REVIEWS,
        RuleRow("list watch", "*", "*"),
        RuleRow("create", "core", "serviceaccounts/token"),
    ),
    "system:kube-dns": role(RuleRow("list watch", "core", "endpoints services")),
    "system:persistent-volume-provisioner": role(
        RuleRow("get list watch create delete", "core", "persistentvolumes"),
        RuleRow("get list watch update", "core", "persistentvolumeclaims"),
        RuleRow(READ, "storage.", "storageclasses"),
        RuleRow("watch", "core", "events"),
        EVENTS,
    ),
    "system:volume-scheduler": role(
        RuleRow(READ_UPDATE, "core", "persistentvolumes"),
        RuleRow(READ, "storage.", "storageclasses"),
        RuleRow(READ_UPDATE, "core", "persistentvolumeclaims"),
    ),
    "system:kube-scheduler": role(
        EVENTS,
        RuleRow("create", "coordination.", "leases"),
        RuleRow("get update list watch", "coordination.", "leases", names="kube-scheduler"),
        RuleRow(READ_WRITE, "coordination.", "leasecandidates"),
        RuleRow(READ, "core", "nodes"),
        RuleRow("get list watch delete", "core", "pods"),
        RuleRow("create", "core", "pods/binding bindings"),
        RuleRow("patch update", "core", "pods/status"),
        RuleRow(READ, "core", "services replicationcontrollers"),
        RuleRow(READ, "apps extensions", "replicasets"),
        RuleRow(READ, "apps", "statefulsets"),
        RuleRow(READ, "policy", "poddisruptionbudgets"),
        RuleRow(READ, "core", "persistentvolumeclaims persistentvolumes"),
        _TOKEN_REVIEWS,
        _ACCESS_REVIEWS,
        RuleRow(READ, "storage.", "csinodes"),
        RuleRow(READ, "storage.", "volumeattachments"),
        RuleRow(READ, "core", "namespaces"),
        RuleRow(READ, "storage.", "csidrivers"),
        RuleRow(READ, "storage.", "csistoragecapacities"),
        RuleRow(READ, "resource.", "deviceclasses"),
        RuleRow(READ_UPDATE, "resource.", "resourceclaims"),
        RuleRow(READ_UPDATE, "resource.", "resourceclaims/status"),
        RuleRow("update", "core", "pods/finalizers"),
        RuleRow(READ, "resource.", "resourceslices"),
        RuleRow("create delete", "resource.", "resourceclaims"),
        RuleRow("update patch", "resource.", "resourceclaims/binding"),
    ),
}

# ---- who decides about certificates


def _approver(signer: str) -> DefaultRole:
    return role(RuleRow("approve", "certificates.", "signers", names=f"kubernetes.io/{signer}"))


def _requester(kind: str) -> DefaultRole:
    return role(RuleRow("create", "certificates.", f"certificatesigningrequests/{kind}"))


_CERTIFICATES: Final[Roles] = {
    "system:certificates.{domain}:certificatesigningrequests:nodeclient": _requester("nodeclient"),
    "system:certificates.{domain}:certificatesigningrequests:selfnodeclient": _requester("selfnodeclient"),
    "system:certificates.{domain}:legacy-unknown-approver": _approver("legacy-unknown"),
    "system:certificates.{domain}:kubelet-serving-approver": _approver("kubelet-serving"),
    "system:certificates.{domain}:kube-apiserver-client-approver": _approver("kube-apiserver-client"),
    "system:certificates.{domain}:kube-apiserver-client-kubelet-approver": _approver(
        "kube-apiserver-client-kubelet"
    ),
}

ROLES: Final[Roles] = {**_EVERYBODY, **_NAMESPACE_USERS, **_NODES, **_PROGRAMS, **_CERTIFICATES}

BINDINGS: Final[Bindings] = {
    "cluster-admin": groups(MASTERS),
    "system:monitoring": groups("system:monitoring"),
    "system:discovery": groups(AUTHENTICATED),
    "system:basic-user": groups(AUTHENTICATED),
    "system:public-info-viewer": groups(AUTHENTICATED, UNAUTHENTICATED),
    "system:node-proxier": users("system:kube-proxy"),
    "system:kube-controller-manager": users("system:kube-controller-manager"),
    "system:kube-dns": accounts("kube-dns"),
    "system:kube-scheduler": users("system:kube-scheduler"),
    "system:volume-scheduler": users("system:kube-scheduler"),
    "system:node": (),
    "system:service-account-issuer-discovery": groups("system:serviceaccounts"),
}
