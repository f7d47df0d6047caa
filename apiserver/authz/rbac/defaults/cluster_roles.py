"""What users, and parts of a cluster other than its controllers, may do everywhere. Source: policy.go."""

from __future__ import annotations

from typing import Final

from apiserver.authz.rbac.defaults.notation import (
    EVENTS,
    READ,
    READ_UPDATE,
    READ_WRITE,
    WRITE,
    Bindings,
    DefaultRole,
    Roles,
    Row,
    accounts,
    get_urls,
    groups,
    role,
    users,
)
from apiserver.vocabulary import AUTHENTICATED, MASTERS, UNAUTHENTICATED

# ---- anybody

_HEALTH: Final = "/healthz /livez /readyz"

_EVERYBODY: Final[Roles] = {
    "cluster-admin": role(Row("*", "*", "*"), Row("*", urls="*")),
    "system:discovery": role(
        get_urls(f"{_HEALTH} /version /version/ /openapi /openapi/* /api /api/* /apis /apis/*")
    ),
    "system:monitoring": role(
        get_urls(f"{_HEALTH} /healthz/* /livez/* /readyz/* /metrics /metrics/slis"),
        Row("get", "core", "nodes/metrics"),
    ),
    "system:basic-user": role(
        Row("create", "authorization.", "selfsubjectaccessreviews selfsubjectrulesreviews"),
        Row("create", "authentication.", "selfsubjectreviews"),
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
            Row("create", "authorization.", "localsubjectaccessreviews"),
            Row(READ_WRITE, "rbac.authorization.", "roles rolebindings"),
        ),
        aggregated_to="admin",
    ),
    "system:aggregate-to-edit": DefaultRole(
        (
            # To read these is to become somebody else, which viewers must not.
            Row(READ, "core", f"{_ENTERED} secrets services/proxy"),
            Row("impersonate", "core", "serviceaccounts"),
            Row(WRITE, "core", f"pods {_ENTERED}"),
            Row("create", "core", "pods/eviction"),
            Row(
                WRITE,
                "core",
                "replicationcontrollers replicationcontrollers/scale serviceaccounts services services/proxy "
                "persistentvolumeclaims configmaps secrets events",
            ),
            Row("create", "core", "serviceaccounts/token"),
            Row(
                WRITE,
                "apps",
                "statefulsets statefulsets/scale daemonsets deployments deployments/scale "
                "deployments/rollback replicasets replicasets/scale",
            ),
            Row(WRITE, "autoscaling", "horizontalpodautoscalers"),
            Row(WRITE, "batch", "jobs cronjobs"),
            Row(
                WRITE,
                "extensions",
                "daemonsets deployments deployments/scale deployments/rollback ingresses replicasets "
                "replicasets/scale replicationcontrollers/scale networkpolicies",
            ),
            Row(WRITE, "policy", "poddisruptionbudgets"),
            Row(WRITE, "networking.", "networkpolicies ingresses"),
            Row(READ_WRITE, "coordination.", "leases"),
            Row(WRITE, "resource.", "resourceclaims resourceclaimtemplates"),
        ),
        aggregated_to="edit",
    ),
    "system:aggregate-to-view": DefaultRole(
        (
            Row(
                READ,
                "core",
                "pods replicationcontrollers replicationcontrollers/scale serviceaccounts services "
                "services/status endpoints persistentvolumeclaims persistentvolumeclaims/status configmaps",
            ),
            Row(
                READ,
                "core",
                "limitranges resourcequotas bindings events pods/status resourcequotas/status "
                "namespaces/status replicationcontrollers/status pods/log",
            ),
            # Held in one namespace, it is about that one.
            Row(READ, "core", "namespaces"),
            Row(READ, "discovery.", "endpointslices"),
            Row(
                READ,
                "apps",
                "controllerrevisions statefulsets statefulsets/status statefulsets/scale daemonsets "
                "daemonsets/status deployments deployments/status deployments/scale replicasets "
                "replicasets/status replicasets/scale",
            ),
            Row(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
            Row(READ, "batch", "jobs jobs/status cronjobs cronjobs/status"),
            Row(
                READ,
                "extensions",
                "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses "
                "ingresses/status replicasets replicasets/scale replicasets/status "
                "replicationcontrollers/scale networkpolicies",
            ),
            Row(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
            Row(READ, "networking.", "networkpolicies ingresses ingresses/status"),
            Row(READ, "resource.", "resourceclaims resourceclaims/status resourceclaimtemplates"),
        ),
        aggregated_to="view",
    ),
}

# ---- nodes

_REQUESTS: Final = Row("create get list watch", "certificates.", "certificatesigningrequests")

_NODES: Final[Roles] = {
    # Held by no one: what a node may do is the business of the Node authorizer.
    "system:node": role(
        Row("create", "authentication.", "tokenreviews"),
        Row("create", "authorization.", "subjectaccessreviews localsubjectaccessreviews"),
        Row(READ, "core", "services"),
        Row("create get list watch", "core", "nodes"),
        Row("update patch", "core", "nodes/status"),
        Row("update patch", "core", "nodes"),
        Row("create update patch", "core", "events"),
        Row(READ, "core", "pods"),
        Row("create delete", "core", "pods"),
        Row("update patch", "core", "pods/status"),
        Row("create", "core", "pods/eviction"),
        Row(READ, "core", "secrets configmaps"),
        Row("get", "core", "persistentvolumeclaims persistentvolumes"),
        Row("get", "core", "endpoints"),
        _REQUESTS,
        Row("get create update patch delete", "coordination.", "leases"),
        Row("get", "storage.", "volumeattachments"),
        Row("create", "core", "serviceaccounts/token"),
        Row("get update patch", "core", "persistentvolumeclaims/status"),
        Row(READ, "storage.", "csidrivers"),
        Row("get create update patch delete", "storage.", "csinodes"),
        Row(READ, "node.", "runtimeclasses"),
        Row("get", "resource.", "resourceclaims"),
        Row("deletecollection", "resource.", "resourceslices"),
        Row("get", "core", "serviceaccounts"),
    ),
    "system:node-problem-detector": role(
        Row("get", "core", "nodes"), Row("patch", "core", "nodes/status"), EVENTS
    ),
    "system:node-bootstrapper": role(_REQUESTS),
    "system:node-proxier": role(
        Row("list watch", "core", "services endpoints"),
        Row(READ, "core", "nodes"),
        EVENTS,
        Row("list watch", "networking.", "servicecidrs"),
        Row("list watch", "discovery.", "endpointslices"),
    ),
    "system:kubelet-api-admin": role(
        Row(READ, "core", "nodes"),
        Row("proxy", "core", "nodes"),
        Row("*", "core", "nodes/proxy nodes/metrics nodes/stats nodes/log"),
        Row("*", "core", "nodes/pods nodes/healthz nodes/configz"),
    ),
}

# ---- the cluster's own programs

_TOKEN_REVIEWS: Final = Row("create", "authentication.", "tokenreviews")
_ACCESS_REVIEWS: Final = Row("create", "authorization.", "subjectaccessreviews")

_PROGRAMS: Final[Roles] = {
    "system:heapster": role(
        Row(READ, "core", "events pods nodes namespaces"), Row(READ, "extensions", "deployments")
    ),
    "system:auth-delegator": role(_TOKEN_REVIEWS, _ACCESS_REVIEWS),
    "system:kube-aggregator": role(Row(READ, "core", "services endpoints")),
    "system:kube-controller-manager": role(
        EVENTS,
        Row("create", "coordination.", "leases"),
        Row("get update", "coordination.", "leases", names="kube-controller-manager"),
        Row("create", "core", "secrets serviceaccounts"),
        Row("delete", "core", "secrets"),
        Row("get", "core", "namespaces secrets serviceaccounts configmaps"),
        Row("update", "core", "secrets serviceaccounts"),
        _TOKEN_REVIEWS,
        _ACCESS_REVIEWS,
        Row("list watch", "*", "*"),
        Row("create", "core", "serviceaccounts/token"),
    ),
    "system:kube-dns": role(Row("list watch", "core", "endpoints services")),
    "system:persistent-volume-provisioner": role(
        Row("get list watch create delete", "core", "persistentvolumes"),
        Row("get list watch update", "core", "persistentvolumeclaims"),
        Row(READ, "storage.", "storageclasses"),
        Row("watch", "core", "events"),
        EVENTS,
    ),
    "system:volume-scheduler": role(
        Row(READ_UPDATE, "core", "persistentvolumes"),
        Row(READ, "storage.", "storageclasses"),
        Row(READ_UPDATE, "core", "persistentvolumeclaims"),
    ),
    "system:kube-scheduler": role(
        EVENTS,
        Row("create", "coordination.", "leases"),
        Row("get update list watch", "coordination.", "leases", names="kube-scheduler"),
        Row(READ_WRITE, "coordination.", "leasecandidates"),
        Row(READ, "core", "nodes"),
        Row("get list watch delete", "core", "pods"),
        Row("create", "core", "pods/binding bindings"),
        Row("patch update", "core", "pods/status"),
        Row(READ, "core", "services replicationcontrollers"),
        Row(READ, "apps extensions", "replicasets"),
        Row(READ, "apps", "statefulsets"),
        Row(READ, "policy", "poddisruptionbudgets"),
        Row(READ, "core", "persistentvolumeclaims persistentvolumes"),
        _TOKEN_REVIEWS,
        _ACCESS_REVIEWS,
        Row(READ, "storage.", "csinodes"),
        Row(READ, "storage.", "volumeattachments"),
        Row(READ, "core", "namespaces"),
        Row(READ, "storage.", "csidrivers"),
        Row(READ, "storage.", "csistoragecapacities"),
        Row(READ, "resource.", "deviceclasses"),
        Row(READ_UPDATE, "resource.", "resourceclaims"),
        Row(READ_UPDATE, "resource.", "resourceclaims/status"),
        Row(READ_UPDATE, "core", "pods/finalizers"),
        Row(READ, "resource.", "resourceslices"),
    ),
}

# ---- who decides about certificates


def _approver(signer: str) -> DefaultRole:
    return role(Row("approve", "certificates.", "signers", names=f"kubernetes.io/{signer}"))


def _requester(kind: str) -> DefaultRole:
    return role(Row("create", "certificates.", f"certificatesigningrequests/{kind}"))


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
