"""How often the causes of wrong metadata are repeated by updates, as a kube-apiserver 1.36 has answered."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.catalogue.served_kinds import ServedKind

# How often it repeats a label that is wrong, a finalizer whose domain is wrong, and one without a domain.
REPEATED: Final[dict[str, tuple[int, int, int]]] = {
    "apiservices.apiregistration.k8s.io": (4, 2, 0),
    "certificatesigningrequests.certificates.k8s.io": (4, 2, 2),
    "certificatesigningrequests.certificates.k8s.io/status": (4, 2, 2),
    "clusterrolebindings.rbac.authorization.k8s.io": (4, 2, 2),
    "clusterroles.rbac.authorization.k8s.io": (4, 2, 2),
    "configmaps.": (4, 2, 2),
    "controllerrevisions.apps": (4, 2, 2),
    "cronjobs.batch": (3, 1, 1),
    "cronjobs.batch/status": (2, 1, 0),
    "csidrivers.storage.k8s.io": (3, 1, 1),
    "csinodes.storage.k8s.io": (3, 2, 1),
    "csistoragecapacities.storage.k8s.io": (4, 2, 2),
    "customresourcedefinitions.apiextensions.k8s.io": (3, 1, 0),
    "customresourcedefinitions.apiextensions.k8s.io/status": (3, 1, 0),
    "daemonsets.apps": (3, 1, 1),
    "daemonsets.apps/status": (3, 1, 1),
    "deployments.apps": (3, 1, 1),
    "deviceclasses.resource.k8s.io": (4, 2, 2),
    "endpoints.": (4, 2, 2),
    "endpointslices.discovery.k8s.io": (3, 2, 1),
    "events.": (2, 1, 0),
    "flowschemas.flowcontrol.apiserver.k8s.io": (3, 2, 1),
    "horizontalpodautoscalers.autoscaling": (3, 1, 1),
    "horizontalpodautoscalers.autoscaling/status": (3, 1, 1),
    "ingressclasses.networking.k8s.io": (4, 2, 2),
    "ingresses.networking.k8s.io": (4, 2, 2),
    "ingresses.networking.k8s.io/status": (3, 1, 1),
    "ipaddresses.networking.k8s.io": (4, 2, 2),
    "jobs.batch": (4, 2, 2),
    "jobs.batch/status": (3, 1, 1),
    "leases.coordination.k8s.io": (3, 1, 0),
    "limitranges.": (3, 2, 1),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": (3, 2, 0),
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": (3, 2, 0),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": (3, 2, 0),
    "namespaces.": (4, 2, 2),
    "namespaces./status": (3, 1, 1),
    "networkpolicies.networking.k8s.io": (3, 1, 1),
    "nodes.": (4, 2, 2),
    "nodes./status": (3, 1, 1),
    "persistentvolumeclaims.": (4, 2, 2),
    "persistentvolumeclaims./status": (3, 1, 1),
    "persistentvolumes.": (4, 3, 2),
    "persistentvolumes./status": (3, 1, 1),
    "poddisruptionbudgets.policy": (2, 1, 0),
    "poddisruptionbudgets.policy/status": (2, 1, 0),
    "podtemplates.": (3, 1, 1),
    "priorityclasses.scheduling.k8s.io": (3, 1, 1),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": (3, 2, 1),
    "replicasets.apps": (3, 1, 1),
    "replicasets.apps/status": (3, 1, 1),
    "replicationcontrollers.": (3, 1, 1),
    "replicationcontrollers./status": (3, 1, 1),
    "resourceclaims.resource.k8s.io": (4, 2, 2),
    "resourceclaimtemplates.resource.k8s.io": (4, 2, 2),
    "resourcequotas.": (3, 1, 1),
    "resourcequotas./status": (3, 1, 1),
    "resourceslices.resource.k8s.io": (3, 1, 1),
    "rolebindings.rbac.authorization.k8s.io": (4, 2, 2),
    "roles.rbac.authorization.k8s.io": (4, 2, 2),
    "runtimeclasses.node.k8s.io": (4, 2, 0),
    "secrets.": (4, 2, 2),
    "serviceaccounts.": (4, 2, 2),
    "servicecidrs.networking.k8s.io": (3, 1, 1),
    "services.": (3, 1, 1),
    "services./status": (3, 1, 1),
    "statefulsets.apps": (3, 1, 1),
    "statefulsets.apps/status": (3, 1, 1),
    "storageclasses.storage.k8s.io": (4, 2, 2),
    "validatingadmissionpolicies.admissionregistration.k8s.io": (3, 2, 0),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": (3, 2, 0),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": (3, 2, 0),
    "volumeattachments.storage.k8s.io": (3, 2, 1),
    "volumeattributesclasses.storage.k8s.io": (4, 2, 2),
}


@pytest.mark.parametrize(("path", "repeated"), REPEATED.items(), ids=REPEATED)
def test_metadata_is_checked_as_often_as_in_kubernetes(path: str, repeated: tuple[int, int, int]) -> None:
    name, _, subresource = path.partition("/")
    version = "v2" if name.startswith("horizontalpodautoscalers") else "v1"
    resource = ServedKind(name, version=version).resource
    rules = resource.strategy.update if not subresource else resource.subresources[subresource].update
    assert rules is not None
    of_object, of_change = rules.object_checks, rules.change_checks
    # The first of either is the generic code's, to which all finalizers with a right name are right.
    strict = 0 if resource.strategy.allows_unqualified_finalizers else of_object + of_change - 2
    assert (of_object + of_change, of_object, strict) == repeated


def test_events_of_the_new_group_need_finalizers_with_domains() -> None:
    """Those of the core group do not, though both are stored alike."""
    allows = {
        name: ServedKind(name).resource.strategy.allows_unqualified_finalizers
        for name in ("events", "events.events.k8s.io")
    }
    assert allows == {"events": True, "events.events.k8s.io": False}
