"""The default cluster roles of controllers, each of which has a service account of its own.

Source: controller_policy.go.
"""

from __future__ import annotations

from typing import Final

from apiserver.auth.authz.rbac.defaults.notation import (
    CONTROLLER_PREFIX,
    EVENTS,
    READ,
    Bindings,
    Roles,
    RuleRow,
    accounts,
    role,
)

_SIGNERS: Final = "kube-apiserver-client kube-apiserver-client-kubelet kubelet-serving legacy-unknown"

_BY_ACCOUNT: Final[Roles] = {
    "attachdetach-controller": role(
        RuleRow("list watch", "core", "persistentvolumes persistentvolumeclaims"),
        RuleRow(READ, "core", "nodes"),
        RuleRow("patch update", "core", "nodes/status"),
        RuleRow("list watch", "core", "pods"),
        EVENTS,
        RuleRow("get create delete list watch", "storage.", "volumeattachments"),
        RuleRow(READ, "storage.", "csidrivers"),
        RuleRow(READ, "storage.", "csinodes"),
    ),
    "clusterrole-aggregation-controller": role(
        RuleRow("escalate get list watch update patch", "rbac.authorization.", "clusterroles")
    ),
    "cronjob-controller": role(
        RuleRow("get list watch update", "batch", "cronjobs"),
        RuleRow("get list watch create update delete patch", "batch", "jobs"),
        RuleRow("update", "batch", "cronjobs/status"),
        RuleRow("update", "batch", "cronjobs/finalizers"),
        RuleRow("list watch delete", "core", "pods"),
        EVENTS,
    ),
    "daemon-set-controller": role(
        RuleRow(READ, "extensions apps", "daemonsets"),
        RuleRow("update", "extensions apps", "daemonsets/status"),
        RuleRow("update", "extensions apps", "daemonsets/finalizers"),
        RuleRow("list watch", "core", "nodes"),
        RuleRow("list watch create delete patch", "core", "pods"),
        RuleRow("create", "core", "pods/binding"),
        RuleRow("get list watch create delete update patch", "apps", "controllerrevisions"),
        EVENTS,
    ),
    "deployment-controller": role(
        RuleRow("get list watch update", "extensions apps", "deployments"),
        RuleRow("update", "extensions apps", "deployments/status"),
        RuleRow("update", "extensions apps", "deployments/finalizers"),
        RuleRow("get list watch create update patch delete", "extensions apps", "replicasets"),
        RuleRow("get list watch update", "core", "pods"),
        EVENTS,
    ),
    "disruption-controller": role(
        RuleRow(READ, "extensions apps", "deployments"),
        RuleRow(READ, "extensions apps", "replicasets"),
        RuleRow(READ, "core", "replicationcontrollers"),
        RuleRow(READ, "policy", "poddisruptionbudgets"),
        RuleRow(READ, "apps", "statefulsets"),
        RuleRow("update", "policy", "poddisruptionbudgets/status"),
        RuleRow("patch update", "core", "pods/status"),
        RuleRow("get", "*", "*/scale"),
        EVENTS,
    ),
    "endpoint-controller": role(
        RuleRow(READ, "core", "services pods"),
        RuleRow("get list watch create update delete", "core", "endpoints"),
        RuleRow("create", "core", "endpoints/restricted"),
        EVENTS,
    ),
    "endpointslice-controller": role(
        RuleRow(READ, "core", "services pods nodes"),
        RuleRow("update", "core", "services/finalizers"),
        RuleRow("get list watch create update delete", "discovery.", "endpointslices"),
        RuleRow("create", "discovery.", "endpointslices/restricted"),
        EVENTS,
    ),
    "endpointslicemirroring-controller": role(
        RuleRow(READ, "core", "services endpoints"),
        RuleRow("update", "core", "services/finalizers"),
        RuleRow("update", "core", "endpoints/finalizers"),
        RuleRow("get list watch create update delete", "discovery.", "endpointslices"),
        RuleRow("create", "discovery.", "endpointslices/restricted"),
        EVENTS,
    ),
    "expand-controller": role(
        RuleRow("get list watch update patch", "core", "persistentvolumes"),
        RuleRow("update patch", "core", "persistentvolumeclaims/status"),
        RuleRow(READ, "core", "persistentvolumeclaims"),
        EVENTS,
    ),
    "ephemeral-volume-controller": role(
        RuleRow(READ, "core", "pods"),
        RuleRow("update", "core", "pods/finalizers"),
        RuleRow("get list watch create", "core", "persistentvolumeclaims"),
        EVENTS,
    ),
    "resource-claim-controller": role(
        RuleRow(READ, "core", "pods"),
        RuleRow("update", "core", "pods/finalizers"),
        RuleRow("get list watch create delete", "resource.", "resourceclaims"),
        RuleRow("update patch", "resource.", "resourceclaims resourceclaims/status"),
        RuleRow("update patch", "core", "pods/status"),
        EVENTS,
        RuleRow("update patch", "resource.", "resourceclaims/binding"),
    ),
    "device-taint-eviction-controller": role(
        RuleRow("get list watch delete", "core", "pods"),
        RuleRow("update patch", "core", "pods/status"),
        RuleRow(READ, "resource.", "resourceclaims"),
        RuleRow(READ, "resource.", "resourceslices"),
        RuleRow(READ, "resource.", "deviceclasses"),
        EVENTS,
    ),
    "generic-garbage-collector": role(RuleRow("get list watch patch update delete", "*", "*"), EVENTS),
    "horizontal-pod-autoscaler": role(
        RuleRow(READ, "autoscaling", "horizontalpodautoscalers"),
        RuleRow("update", "autoscaling", "horizontalpodautoscalers/status"),
        RuleRow("get update", "*", "*/scale"),
        RuleRow("list watch", "core", "pods"),
        RuleRow("list watch", "metrics.", "pods"),
        RuleRow(READ, "custom.metrics.", "*"),
        RuleRow(READ, "external.metrics.", "*"),
        EVENTS,
    ),
    "job-controller": role(
        RuleRow("get list watch update patch", "batch", "jobs"),
        RuleRow("update", "batch", "jobs/status"),
        RuleRow("update", "batch", "jobs/finalizers"),
        RuleRow("list watch create delete patch", "core", "pods"),
        EVENTS,
    ),
    "namespace-controller": role(
        RuleRow("get list watch delete", "core", "namespaces"),
        RuleRow("update", "core", "namespaces/finalize namespaces/status"),
        RuleRow("get list watch delete deletecollection", "*", "*"),
    ),
    "node-controller": role(
        RuleRow("get list watch update delete patch", "core", "nodes"),
        RuleRow("patch update", "core", "nodes/status"),
        RuleRow("patch update", "core", "pods/status"),
        RuleRow("list watch get delete", "core", "pods"),
        EVENTS,
    ),
    "persistent-volume-binder": role(
        RuleRow("get list watch update create delete", "core", "persistentvolumes"),
        RuleRow("update", "core", "persistentvolumes/status"),
        RuleRow("get list watch update", "core", "persistentvolumeclaims"),
        RuleRow("update", "core", "persistentvolumeclaims/status"),
        RuleRow("list watch get create delete", "core", "pods"),
        RuleRow(READ, "storage.", "storageclasses"),
        RuleRow("list watch", "core", "nodes"),
        EVENTS,
        RuleRow("watch", "core", "events"),
    ),
    "pod-garbage-collector": role(
        RuleRow("list watch delete", "core", "pods"),
        RuleRow(READ, "core", "nodes"),
        RuleRow("patch", "core", "pods/status"),
    ),
    "replicaset-controller": role(
        RuleRow("get list watch update", "extensions apps", "replicasets"),
        RuleRow("update", "extensions apps", "replicasets/status"),
        RuleRow("update", "extensions apps", "replicasets/finalizers"),
        RuleRow("list watch patch create delete", "core", "pods"),
        EVENTS,
    ),
    "replication-controller": role(
        RuleRow("get list watch update", "core", "replicationcontrollers"),
        RuleRow("update", "core", "replicationcontrollers/status"),
        RuleRow("update", "core", "replicationcontrollers/finalizers"),
        RuleRow("list watch patch create delete", "core", "pods"),
        EVENTS,
    ),
    "resourcequota-controller": role(
        RuleRow("list watch", "*", "*"), RuleRow("update", "core", "resourcequotas/status"), EVENTS
    ),
    "route-controller": role(
        RuleRow("list watch", "core", "nodes"), RuleRow("patch", "core", "nodes/status"), EVENTS
    ),
    "service-account-controller": role(RuleRow("create", "core", "serviceaccounts"), EVENTS),
    "service-controller": role(
        RuleRow(READ, "core", "services"),
        RuleRow("patch update", "core", "services/status"),
        RuleRow("list watch", "core", "nodes"),
        EVENTS,
    ),
    "service-cidrs-controller": role(
        RuleRow("get list watch patch update", "networking.", "servicecidrs"),
        RuleRow("patch update", "networking.", "servicecidrs/finalizers"),
        RuleRow("patch update", "networking.", "servicecidrs/status"),
        RuleRow(READ, "networking.", "ipaddresses"),
        EVENTS,
    ),
    "statefulset-controller": role(
        RuleRow("list watch", "core", "pods"),
        RuleRow(READ, "apps", "statefulsets"),
        RuleRow("update", "apps", "statefulsets/status"),
        RuleRow("update", "apps", "statefulsets/finalizers"),
        RuleRow("get create delete update patch", "core", "pods"),
        RuleRow("get create delete update patch list watch", "apps", "controllerrevisions"),
        RuleRow("get create list watch", "core", "persistentvolumeclaims"),
        RuleRow("update delete", "core", "persistentvolumeclaims"),
        RuleRow("update", "core", "pods/finalizers"),
        EVENTS,
    ),
    "ttl-controller": role(RuleRow("update patch list watch", "core", "nodes"), EVENTS),
    "certificate-controller": role(
        RuleRow("get list watch delete", "certificates.", "certificatesigningrequests"),
        RuleRow(
            "update",
            "certificates.",
            "certificatesigningrequests/status certificatesigningrequests/approval",
        ),
        RuleRow("approve", "certificates.", "signers", names="kubernetes.io/kube-apiserver-client-kubelet"),
        RuleRow(
            "sign",
            "certificates.",
            "signers",
            names=" ".join(f"kubernetes.io/{signer}" for signer in _SIGNERS.split()),
        ),
        RuleRow("create", "authorization.", "subjectaccessreviews"),
        EVENTS,
    ),
    "pvc-protection-controller": role(
        RuleRow("get list watch update", "core", "persistentvolumeclaims"),
        RuleRow("update", "core", "persistentvolumeclaims/status"),
        RuleRow(READ, "core", "pods"),
        EVENTS,
    ),
    "pv-protection-controller": role(RuleRow("get list watch update", "core", "persistentvolumes"), EVENTS),
    "volumeattributesclass-protection-controller": role(
        RuleRow(READ, "core", "persistentvolumeclaims"),
        RuleRow(READ, "core", "persistentvolumes"),
        RuleRow("get list watch update", "storage.", "volumeattributesclasses"),
        EVENTS,
    ),
    "ttl-after-finished-controller": role(RuleRow("get list watch delete", "batch", "jobs"), EVENTS),
    "root-ca-cert-publisher": role(RuleRow("create update", "core", "configmaps"), EVENTS),
    "service-ca-cert-publisher": role(RuleRow("create update", "core", "configmaps"), EVENTS),
    "validatingadmissionpolicy-status-controller": role(
        RuleRow(READ, "admissionregistration.", "validatingadmissionpolicies"),
        RuleRow("get patch update", "admissionregistration.", "validatingadmissionpolicies/status"),
        EVENTS,
    ),
    "legacy-service-account-token-cleaner": role(
        RuleRow("get", "core", "configmaps", names="kube-apiserver-legacy-service-account-token-tracking"),
        RuleRow("patch delete", "core", "secrets"),
    ),
    "selinux-warning-controller": role(
        EVENTS,
        RuleRow(READ, "core", "persistentvolumes"),
        RuleRow(READ, "core", "persistentvolumeclaims"),
        RuleRow(READ, "core", "pods"),
        RuleRow(READ, "storage.", "csidrivers"),
    ),
}

ROLES: Final[Roles] = {f"{CONTROLLER_PREFIX}{account}": each for account, each in _BY_ACCOUNT.items()}
BINDINGS: Final[Bindings] = {f"{CONTROLLER_PREFIX}{account}": accounts(account) for account in _BY_ACCOUNT}
