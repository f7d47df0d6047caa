"""What a stored pod spec has that a rule forbids now, it may keep.

Source: pkg/api/pod, util.go, GetValidationOptionsFromPodSpecAndMeta.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.core.pods.validation import validate_pod
from apiserver.catalogue.pod_specs.templates import validate_template
from apiserver.catalogue.pod_specs.validation import PodSpecRules
from apiserver.catalogue.pod_specs.validation_options import PodValidationOptions
from tests.unit.catalogue.valid_pods import RULES, Document, container, decoded, pod, rules

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
BLOCK: Final = {"name": "b", "persistentVolumeClaim": {"claimName": "c"}}
DEVICE: Final = container(volumeDevices=[{"name": "b", "devicePath": "/dev/b"}])


def in_zone(**selector: Any) -> Document:
    return {"topologyKey": "zone", "labelSelector": selector}


def spread(**more: Any) -> Document:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **more}
    return {"topologySpreadConstraints": [constraint]}


def huge(amount: str) -> Document:
    return {"containers": [container(resources={"limits": {"hugepages-2Mi": amount, "cpu": "1"}})]}


def first(**more: Any) -> Document:
    return {"initContainers": [container(name="i", **more)]}


BAD_VALUE: Final = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]}
RESIZES: Final = {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}
KEYS: Final = {
    "matchLabelKeys": ["a"],
    "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
}
RULE: Final = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
VARIABLE: Final = {"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}}
FILES: Final[Document] = {
    "volumes": [{"name": "v", "emptyDir": {}}],
    "containers": [container(env=[VARIABLE])],
}
TOKEN: Final = {"projected": {"sources": [{"serviceAccountToken": {"path": "/t"}}]}}

# A spec that only the option of this name allows.
OPTIONS: Final[dict[str, Document]] = {
    "restart_rules": {"containers": [container(restartPolicy="Never")]},
    "restart_all_containers": {"containers": [container(restartPolicy="Never", restartPolicyRules=[RULE])]},
    "relaxed_dns_searches": {"dnsConfig": {"searches": ["_a.b"]}},
    "relaxed_env_names": {"containers": [container(env=[{"name": "1 a"}])]},
    "sleep_of_zero": {"containers": [container(lifecycle={"preStop": {"sleep": {"seconds": 0}}})]},
    "sidecar_resize_policy": first(restartPolicy="Always", **RESIZES),
    "merged_label_keys_in_spread": spread(**KEYS),
    "selinux_mount_option": {"securityContext": {"seLinuxChangePolicy": "MountOption"}},
    "toleration_comparisons": {"tolerations": [{"key": "a", "operator": "Gt", "value": "5"}]},
    "host_network_without_host_users": {"hostNetwork": True, "hostUsers": False},
    "restart_for_resize_of_init_containers": first(**RESIZES),
    "devices_without_host_users": {"hostUsers": False, "volumes": [BLOCK], "containers": [DEVICE]},
    "indivisible_huge_pages": huge("3Mi"),
    "invalid_values_in_pod_affinity": {"affinity": {"podAffinity": {REQUIRED: [in_zone(**BAD_VALUE)]}}},
    "invalid_values_in_node_affinity": {
        "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [BAD_VALUE]}}}
    },
    "invalid_selectors_in_spread": spread(labelSelector={"matchLabels": {"a": "-"}}),
    "non_local_token_paths": {"serviceAccountName": "a", "volumes": [{"name": "t", **TOKEN}]},
    "sysctls_of_host": {
        "hostNetwork": True,
        "securityContext": {"sysctls": [{"name": "net.ipv4.a", "value": "1"}]},
    },
}


def without(option: str) -> PodSpecRules:
    """The rules of a server that does not allow this."""
    return PodSpecRules(RULES.specs.options._replace(**{option: False}))


@pytest.mark.parametrize(("option", "spec"), OPTIONS.items(), ids=OPTIONS)
def test_a_pod_keeps_what_it_has(option: str, spec: Document) -> None:
    specs, stored = without(option), pod(**spec)
    assert validate_pod(specs, stored) != []
    assert validate_pod(specs, pod({"labels": {"a": "b"}}, **spec), stored) == []
    assert validate_pod(specs, stored, pod()) != [], "nobody may add it"


@pytest.mark.parametrize(("option", "spec"), OPTIONS.items(), ids=OPTIONS)
def test_a_template_keeps_what_it_has(option: str, spec: Document) -> None:
    specs = without(option)
    stored = decoded({"spec": {"containers": [container()], **spec}}, "PodTemplateSpec")
    assert validate_template("t", stored, specs) != []
    assert validate_template("t", stored, specs, stored) == []


# Options that decide about more than what is valid.
ELSEWHERE: Final = {
    *("env_files", "pod_level_resources", "label_keys_in_spread", "any_deletion_cost", "git_repos"),
    "unusual_addresses",
}


def test_every_option_is_tested() -> None:
    assert OPTIONS.keys() | ELSEWHERE == set(PodValidationOptions._fields)


def test_an_invalid_cost_of_deletion_may_stay() -> None:
    bad = pod({"annotations": {"controller.kubernetes.io/pod-deletion-cost": "+1"}})
    where = "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]"
    assert [error.field for error in validate_pod(RULES.specs, bad, pod())] == [where]
    assert validate_pod(RULES.specs, bad, bad) == []
    assert validate_pod(rules(PodDeletionCost=False).specs, bad) == []


def test_the_error_of_an_empty_variable_source_lists_the_sources_of_the_release() -> None:
    """Files with variables are named while their gate is on, and where the stored pod has one."""
    wrong = pod(**FILES)
    wrong["spec"]["containers"][0]["env"].append({"name": "B", "valueFrom": {}})
    others = rules(EnvFiles=False).specs
    [error] = validate_pod(others, wrong, pod())
    assert error.message.endswith("`configMapKeyRef` or `secretKeyRef`")
    [error] = validate_pod(others, wrong, pod(**FILES))
    assert error.message.endswith("`secretKeyRef` or `fileKeyRef`")


def test_rules_keep_what_they_found_valid_for_themselves() -> None:
    """What one server's gates allow is checked again by another's, in one process."""
    spec = pod(containers=[container(restartPolicy="Never")])
    others = rules(ContainerRestartRules=False, RestartAllContainersOnContainerExits=False).specs
    assert validate_pod(RULES.specs, spec) == []
    assert [error.field for error in validate_pod(others, spec)] == ["spec.containers[0].restartPolicy"]
