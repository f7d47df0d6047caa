"""What the controllers of a cluster may do everywhere, each by a service account of its own.

Source: controller_policy.go.
"""

from __future__ import annotations

from typing import Final

from apiserver.authz.rbac.defaults.notation import (
    CONTROLLER_PREFIX,
    EVENTS,
    READ,
    Bindings,
    Roles,
    Row,
    accounts,
    role,
)

_SIGNERS: Final = "kube-apiserver-client kube-apiserver-client-kubelet kubelet-serving legacy-unknown"

_BY_ACCOUNT: Final[Roles] = {
    "attachdetach-controller": role(
        Row("list watch", "core", "persistentvolumes persistentvolumeclaims"),
        Row(READ, "core", "nodes"),
        Row("patch update", "core", "nodes/status"),
        Row("list watch", "core", "pods"),
        EVENTS,
        Row("get create delete list watch", "storage.", "volumeattachments"),
        Row(READ, "storage.", "csidrivers"),
        Row(READ, "storage.", "csinodes"),
    ),
    "clusterrole-aggregation-controller": role(
        Row("escalate get list watch update patch", "rbac.authorization.", "clusterroles")
    ),
    "cronjob-controller": role(
        Row("get list watch update", "batch", "cronjobs"),
        Row("get list watch create update delete patch", "batch", "jobs"),
        Row("update", "batch", "cronjobs/status"),
        Row("update", "batch", "cronjobs/finalizers"),
        Row("list watch delete", "core", "pods"),
        EVENTS,
    ),
    "daemon-set-controller": role(
        Row(READ, "extensions apps", "daemonsets"),
        Row("update", "extensions apps", "daemonsets/status"),
        Row("update", "extensions apps", "daemonsets/finalizers"),
        Row("list watch", "core", "nodes"),
        Row("list watch create delete patch", "core", "pods"),
        Row("create", "core", "pods/binding"),
        Row("get list watch create delete update patch", "apps", "controllerrevisions"),
        EVENTS,
    ),
    "deployment-controller": role(
        Row("get list watch update", "extensions apps", "deployments"),
        Row("update", "extensions apps", "deployments/status"),
        Row("update", "extensions apps", "deployments/finalizers"),
        Row("get list watch create update patch delete", "extensions apps", "replicasets"),
        Row("get list watch update", "core", "pods"),
        EVENTS,
    ),
    "disruption-controller": role(
        Row(READ, "extensions apps", "deployments"),
        Row(READ, "extensions apps", "replicasets"),
        Row(READ, "core", "replicationcontrollers"),
        Row(READ, "policy", "poddisruptionbudgets"),
        Row(READ, "apps", "statefulsets"),
        Row("update", "policy", "poddisruptionbudgets/status"),
        Row("patch update", "core", "pods/status"),
        Row("get", "*", "*/scale"),
        EVENTS,
    ),
    "endpoint-controller": role(
        Row(READ, "core", "services pods"),
        Row("get list watch create update delete", "core", "endpoints"),
        Row("create", "core", "endpoints/restricted"),
        EVENTS,
    ),
    "endpointslice-controller": role(
        Row(READ, "core", "services pods nodes"),
        Row("update", "core", "services/finalizers"),
        Row("get list watch create update delete", "discovery.", "endpointslices"),
        EVENTS,
    ),
    "endpointslicemirroring-controller": role(
        Row(READ, "core", "services endpoints"),
        Row("update", "core", "services/finalizers"),
        Row("update", "core", "endpoints/finalizers"),
        Row("get list watch create update delete", "discovery.", "endpointslices"),
        EVENTS,
    ),
    "expand-controller": role(
        Row("get list watch update patch", "core", "persistentvolumes"),
        Row("update patch", "core", "persistentvolumeclaims/status"),
        Row(READ, "core", "persistentvolumeclaims"),
        EVENTS,
        Row("get", "core", "services"),
    ),
    "ephemeral-volume-controller": role(
        Row(READ, "core", "pods"),
        Row("update", "core", "pods/finalizers"),
        Row("get list watch create", "core", "persistentvolumeclaims"),
        EVENTS,
    ),
    "resource-claim-controller": role(
        Row(READ, "core", "pods"),
        Row("update", "core", "pods/finalizers"),
        Row("get list watch create delete", "resource.", "resourceclaims"),
        Row("update patch", "resource.", "resourceclaims resourceclaims/status"),
        Row("update patch", "core", "pods/status"),
        EVENTS,
    ),
    "generic-garbage-collector": role(Row("get list watch patch update delete", "*", "*"), EVENTS),
    "horizontal-pod-autoscaler": role(
        Row(READ, "autoscaling", "horizontalpodautoscalers"),
        Row("update", "autoscaling", "horizontalpodautoscalers/status"),
        Row("get update", "*", "*/scale"),
        Row("list watch", "core", "pods"),
        Row("list watch", "metrics.", "pods"),
        Row(READ, "custom.metrics.", "*"),
        Row(READ, "external.metrics.", "*"),
        EVENTS,
    ),
    "job-controller": role(
        Row("get list watch update patch", "batch", "jobs"),
        Row("update", "batch", "jobs/status"),
        Row("update", "batch", "jobs/finalizers"),
        Row("list watch create delete patch", "core", "pods"),
        EVENTS,
    ),
    "namespace-controller": role(
        Row("get list watch delete", "core", "namespaces"),
        Row("update", "core", "namespaces/finalize namespaces/status"),
        Row("get list watch delete deletecollection", "*", "*"),
    ),
    "node-controller": role(
        Row("get list watch update delete patch", "core", "nodes"),
        Row("patch update", "core", "nodes/status"),
        Row("patch update", "core", "pods/status"),
        Row("list watch get delete", "core", "pods"),
        EVENTS,
    ),
    "persistent-volume-binder": role(
        Row("get list watch update create delete", "core", "persistentvolumes"),
        Row("update", "core", "persistentvolumes/status"),
        Row("get list watch update", "core", "persistentvolumeclaims"),
        Row("update", "core", "persistentvolumeclaims/status"),
        Row("list watch get create delete", "core", "pods"),
        Row(READ, "storage.", "storageclasses"),
        Row("list watch", "core", "nodes"),
        EVENTS,
        Row("watch", "core", "events"),
        Row("get", "core", "services"),
    ),
    "pod-garbage-collector": role(
        Row("list watch delete", "core", "pods"),
        Row(READ, "core", "nodes"),
        Row("patch", "core", "pods/status"),
    ),
    "replicaset-controller": role(
        Row("get list watch update", "extensions apps", "replicasets"),
        Row("update", "extensions apps", "replicasets/status"),
        Row("update", "extensions apps", "replicasets/finalizers"),
        Row("list watch patch create delete", "core", "pods"),
        EVENTS,
    ),
    "replication-controller": role(
        Row("get list watch update", "core", "replicationcontrollers"),
        Row("update", "core", "replicationcontrollers/status"),
        Row("update", "core", "replicationcontrollers/finalizers"),
        Row("list watch patch create delete", "core", "pods"),
        EVENTS,
    ),
    "resourcequota-controller": role(
        Row("list watch", "*", "*"), Row("update", "core", "resourcequotas/status"), EVENTS
    ),
    "route-controller": role(
        Row("list watch", "core", "nodes"), Row("patch", "core", "nodes/status"), EVENTS
    ),
    "service-account-controller": role(Row("create", "core", "serviceaccounts"), EVENTS),
    "service-controller": role(
        Row(READ, "core", "services"),
        Row("patch update", "core", "services/status"),
        Row("list watch", "core", "nodes"),
        EVENTS,
    ),
    "service-cidrs-controller": role(
        Row("get list watch patch update", "networking.", "servicecidrs"),
        Row("patch update", "networking.", "servicecidrs/finalizers"),
        Row("patch update", "networking.", "servicecidrs/status"),
        Row(READ, "networking.", "ipaddresses"),
        EVENTS,
    ),
    "statefulset-controller": role(
        Row("list watch", "core", "pods"),
        Row(READ, "apps", "statefulsets"),
        Row("update", "apps", "statefulsets/status"),
        Row("update", "apps", "statefulsets/finalizers"),
        Row("get create delete update patch", "core", "pods"),
        Row("get create delete update patch list watch", "apps", "controllerrevisions"),
        Row("get create list watch", "core", "persistentvolumeclaims"),
        Row("update delete", "core", "persistentvolumeclaims"),
        Row("update", "core", "pods/finalizers"),
        EVENTS,
    ),
    "ttl-controller": role(Row("update patch list watch", "core", "nodes"), EVENTS),
    "certificate-controller": role(
        Row("get list watch delete", "certificates.", "certificatesigningrequests"),
        Row(
            "update",
            "certificates.",
            "certificatesigningrequests/status certificatesigningrequests/approval",
        ),
        Row("approve", "certificates.", "signers", names="kubernetes.io/kube-apiserver-client-kubelet"),
        Row(
            "sign",
            "certificates.",
            "signers",
            names=" ".join(f"kubernetes.io/{signer}" for signer in _SIGNERS.split()),
        ),
        Row("create", "authorization.", "subjectaccessreviews"),
        EVENTS,
    ),
    "pvc-protection-controller": role(
        Row("get list watch update", "core", "persistentvolumeclaims"), Row(READ, "core", "pods"), EVENTS
    ),
    "pv-protection-controller": role(Row("get list watch update", "core", "persistentvolumes"), EVENTS),
    "volumeattributesclass-protection-controller": role(
        Row(READ, "core", "persistentvolumeclaims"),
        Row(READ, "core", "persistentvolumes"),
        Row("get list watch update", "storage.", "volumeattributesclasses"),
        EVENTS,
    ),
    "ttl-after-finished-controller": role(Row("get list watch delete", "batch", "jobs"), EVENTS),
    "root-ca-cert-publisher": role(Row("create update", "core", "configmaps"), EVENTS),
    "validatingadmissionpolicy-status-controller": role(
        Row(READ, "admissionregistration.", "validatingadmissionpolicies"),
        Row("get patch update", "admissionregistration.", "validatingadmissionpolicies/status"),
        EVENTS,
    ),
    "legacy-service-account-token-cleaner": role(
        Row("get", "core", "configmaps", names="kube-apiserver-legacy-service-account-token-tracking"),
        Row("patch delete", "core", "secrets"),
    ),
    "selinux-warning-controller": role(
        EVENTS,
        Row(READ, "core", "persistentvolumes"),
        Row(READ, "core", "persistentvolumeclaims"),
        Row(READ, "core", "pods"),
        Row(READ, "storage.", "csidrivers"),
    ),
}

ROLES: Final[Roles] = {f"{CONTROLLER_PREFIX}{account}": each for account, each in _BY_ACCOUNT.items()}
BINDINGS: Final[Bindings] = {f"{CONTROLLER_PREFIX}{account}": accounts(account) for account in _BY_ACCOUNT}
