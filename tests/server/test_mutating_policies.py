"""MutatingAdmissionPolicies: what they change, what refuses a write, and what they cannot do to the server.

The recorded conversations (`policies/map-*`, `policies/*patch*`, `admission/map-*`) say what they do, and in
which words. Source of the others: k8s.io/apiserver, pkg/admission/plugin/policy/mutating.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.hostile.support import longest_turn
from tests.support import objects, rbac
from tests.support.api import Answer, Api
from tests.support.definitions import define, define_two_versions, definition, new_group, version
from tests.support.fixtures import server_with
from tests.support.metrics import metrics_of
from tests.support.objects import config_map, config_maps, deployments, template

GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
POLICIES: Final = f"{GROUP}/mutatingadmissionpolicies"
BINDINGS: Final = f"{GROUP}/mutatingadmissionpolicybindings"
# Of the loop's thread, as for large objects that clients send (tests/hostile).
TURN_S: Final = 0.05


server = server_with()


def rule(group: str, resource: str, *operations: str, api_version: str = "v1") -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": [api_version],
        "operations": operations or ("CREATE", "UPDATE"),
        "resources": [resource],
    }


CONFIG_MAPS: Final = rule("", "configmaps")
DEPLOYMENTS: Final = rule("apps", "deployments")


def apply(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def policy(
    namespace: str, *mutations: Any, name: str = "", rules: Sequence[Any] = (CONFIG_MAPS,), **spec: Any
) -> dict[str, Any]:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    return {
        "metadata": {"name": name or f"p-{namespace}"},
        "spec": {
            "matchConstraints": {"resourceRules": rules, "namespaceSelector": selector},
            "mutations": mutations,
            "reinvocationPolicy": "Never",
            **spec,
        },
    }


def bind(api: Api, body: dict[str, Any], **spec: Any) -> None:
    """Create a policy, and a binding of the same name."""
    name = body["metadata"]["name"]
    api.post(POLICIES, body).ok()
    api.post(BINDINGS, {"metadata": {"name": name}, "spec": {"policyName": name, **spec}}).ok()


def unbind(api: Api, name: str) -> None:
    api.delete(f"{BINDINGS}/{name}").ok()
    api.delete(f"{POLICIES}/{name}").ok()


def deployment(**spec: Any) -> dict[str, Any]:
    return objects.deployment(replicas=2, template=template(**spec))


def pod_spec(parts: str) -> str:
    """The expression that sets fields of the pods of a Deployment."""
    path = "Object.spec.template.spec"
    return f"Object{{spec: Object.spec{{template: Object.spec.template{{spec: {path}{{{parts}}}}}}}}}"


CONTAINER: Final = "Object.spec.template.spec.containers"
# By what they do: the mutations, and what they make of a Deployment, by path.
DONE: Final[dict[str, tuple[list[Any], dict[str, Any]]]] = {
    "a keyed list is merged by its keys": (
        [apply(pod_spec(f'containers: [{CONTAINER}{{name: "s", image: "j"}}]'))],
        {"spec.template.spec.containers.0.name": "c", "spec.template.spec.containers.1.image": "j"},
    ),
    "an item of it is changed": (
        [apply(pod_spec(f'containers: [{CONTAINER}{{name: "c", imagePullPolicy: "Always"}}]'))],
        {
            "spec.template.spec.containers.0.image": "i",
            "spec.template.spec.containers.0.imagePullPolicy": "Always",
        },
    ),
    "an item is completed by defaults": (
        [apply(pod_spec(f'containers: [{CONTAINER}{{name: "s", image: "j:1"}}]'))],
        {"spec.template.spec.containers.1.terminationMessagePath": "/dev/termination-log"},
    ),
    "conditions and arithmetic": (
        [
            apply(
                "Object{spec: Object.spec{replicas: object.spec.replicas > 1 ? object.spec.replicas + 1 : 0}}"
            )
        ],
        {"spec.replicas": 3},
    ),
    "optional fields": (
        [apply("Object{spec: Object.spec{?paused: optional.none(), ?replicas: optional.of(7)}}")],
        {"spec.replicas": 7, "spec.paused": None},
    ),
    "maps that are computed": (
        [
            apply(
                "Object{metadata: Object.metadata{labels: "
                "object.spec.selector.matchLabels.transformMap(k, v, v + '!').transformMap(k, v, 'x')}}"
            )
        ],
        {"metadata.labels.app": "x"},
    ),
    "each sees what those before it have changed": (
        [
            apply("Object{spec: Object.spec{replicas: object.spec.replicas + 1}}"),
            patch('[JSONPatch{op: "replace", path: "/spec/replicas", value: object.spec.replicas * 10}]'),
            apply("Object{spec: Object.spec{replicas: object.spec.replicas + 1}}"),
        ],
        {"spec.replicas": 31},
    ),
    "a patch that nothing fails in": (
        [
            patch(
                '[JSONPatch{op: "test", path: "/spec/replicas", value: 2},'
                ' JSONPatch{op: "replace", path: "/spec/replicas", value: 3}]'
            )
        ],
        {"spec.replicas": 3},
    ),
    "a patch whose test fails does nothing": (
        [
            patch(
                '[JSONPatch{op: "replace", path: "/spec/replicas", value: 3},'
                ' JSONPatch{op: "test", path: "/metadata/none", value: 1}]'
            ),
            patch('[JSONPatch{op: "test", path: "/metadata/name", value: "other"}]'),
        ],
        {"spec.replicas": 2},
    ),
    "a patch adds objects by their type": (
        [
            patch(
                f'[JSONPatch{{op: "add", path: "/spec/template/spec/containers/-", value: {CONTAINER}{{'
                f'name: "s", image: "i", ports: [{CONTAINER}.ports{{containerPort: 8080}}]}}}}]'
            )
        ],
        {"spec.template.spec.containers.1.ports.0.containerPort": 8080},
    ),
    "a patch may set what is owned as a whole": (
        [patch('[JSONPatch{op: "add", path: "/spec/template/spec/nodeSelector", value: {"a": "b"}}]')],
        {"spec.template.spec.nodeSelector.a": "b"},
    ),
    "a patch copies parts of the object": (
        [patch('[JSONPatch{op: "add", path: "/metadata/labels", value: object.spec.selector.matchLabels}]')],
        {"metadata.labels.app": "a"},
    ),
    "keys are escaped": (
        [
            patch(
                '[JSONPatch{op: "add", path: "/metadata/annotations", value: {}},'
                ' JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("k8s.io/x"),'
                ' value: "1"}]'
            )
        ],
        {"metadata.annotations": {"k8s.io/x": "1"}},
    ),
}


def at(document: Any, path: str) -> Any:
    for step in path.split("."):
        if isinstance(document, list):
            document = document[int(step)]
        else:
            document = document.get(step) if document is not None else None
    return document


@pytest.mark.parametrize(("mutations", "made"), DONE.values(), ids=DONE)
def test_what_is_done(api: Api, namespace: str, mutations: list[Any], made: dict[str, Any]) -> None:
    bind(api, policy(namespace, *mutations, rules=[DEPLOYMENTS]))
    created = api.post(deployments(namespace), deployment()).ok()
    assert {path: at(created, path) for path in made} == made


# By why they fail: the mutation, and the end of the message.
FAILS: Final[dict[str, tuple[Any, str]]] = {
    "another type's name": (
        apply("Object{spec: Object.specx{replicas: 1}}"),
        (
            'type mismatch: unexpected type name "Object.specx", expected "Object.spec", which matches '
            "field name path from root Object type"
        ),
    ),
    "a field that there is not": (
        apply("Object{spec: Object.spec{replicasx: 1}}"),
        (
            "error applying patch: failed to convert patch object to typed object: .spec.replicasx: field "
            "not declared in schema"
        ),
    ),
    "a value of another type": (
        apply('Object{spec: Object.spec{replicas: "1"}}'),
        (
            "error applying patch: failed to convert patch object to typed object: .spec.replicas: expected "
            "numeric (int or float), got string"
        ),
    ),
    "a struct that is owned as a whole": (
        apply('Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {"l": "v"}}}}'),
        (
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or "
            "structs: .spec.selector"
        ),
    ),
    "a list that is, in an item": (
        apply(pod_spec(f'containers: [{CONTAINER}{{name: "c", args: ["a"]}}]')),
        "may not mutate atomic arrays, maps or structs: .spec.template.spec.containers[0].args",
    ),
    "an expression": (
        apply("Object{spec: Object.spec{replicas: object.none}}"),
        "expression 'Object{spec: Object.spec{replicas: object.none}}' resulted in error: no such key: none",
    ),
    "nothing to remove": (
        patch('[JSONPatch{op: "remove", path: "/metadata/labels"}]'),
        (
            "JSON Patch: error in remove for path: '/metadata/labels': Unable to remove nonexistent key: "
            "labels: missing value"
        ),
    ),
    "nothing to add it to": (
        patch('[JSONPatch{op: "add", path: "/metadata/labels/a", value: "b"}]'),
        'JSON Patch: add operation does not apply: doc is missing path: "/metadata/labels/a": missing value',
    ),
    "no item to replace": (
        patch('[JSONPatch{op: "replace", path: "/spec/template/spec/containers/-", value: {"name": "x"}}]'),
        (
            "JSON Patch: replace operation does not apply: doc is missing key: "
            "/spec/template/spec/containers/-: missing value"
        ),
    ),
    "nothing to copy": (
        patch('[JSONPatch{op: "copy", from: "/none/x", path: "/spec/y"}]'),
        "JSON Patch: copy operation does not apply: doc is missing from path: /none/x: missing value",
    ),
    "an operation there is not": (
        patch('[JSONPatch{op: "burn", path: "/spec"}]'),
        "JSON Patch: Unexpected kind: burn",
    ),
}


@pytest.mark.parametrize(("mutation", "why"), FAILS.values(), ids=FAILS)
def test_mutations_that_fail(api: Api, namespace: str, mutation: Any, why: str) -> None:
    bind(api, policy(namespace, mutation, rules=[DEPLOYMENTS]))
    refused = api.post(deployments(namespace), deployment())
    assert (refused.status, refused.reason) == (403, "Invalid")
    name = f"p-{namespace}"
    assert refused.message.startswith(f"policy '{name}' with binding '{name}' denied request: ")
    assert why in refused.message
    api.patch(f"{POLICIES}/{name}", {"spec": {"failurePolicy": "Ignore"}}).ok()
    assert api.post(deployments(namespace), deployment()).ok()["spec"]["replicas"] == 2


def test_an_item_without_its_key_has_the_default_of_the_key(api: Api, namespace: str) -> None:
    """So it is added to the list, and validation refuses it, as after an apply by a client."""
    bind(
        api,
        policy(namespace, apply(pod_spec(f'containers: [{CONTAINER}{{image: "i"}}]')), rules=[DEPLOYMENTS]),
    )
    refused = api.post(deployments(namespace), deployment())
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == [
        "spec.template.spec.containers[1].name"
    ]


# Whoever has written the policy has to mend it: no failurePolicy lets such objects pass.
BROKEN: Final[dict[str, tuple[str, str]]] = {
    "a wrong type": ('[JSONPatch{op: "replace", path: "/data", value: 5}]', "data"),
    "a field that there is not": (
        '[JSONPatch{op: "add", path: "/unknown", value: 5}]',
        'strict decoding error: unknown field "unknown"',
    ),
    "another kind": ('[JSONPatch{op: "replace", path: "/kind", value: "Pod"}]', "another kind"),
    "another apiVersion": ('[JSONPatch{op: "replace", path: "/apiVersion", value: "v2"}]', "another kind"),
    "no object": ('[JSONPatch{op: "replace", path: "", value: 5}]', "not an object"),
}


@pytest.mark.parametrize(("expression", "why"), BROKEN.values(), ids=BROKEN)
def test_patches_that_break_the_object(api: Api, namespace: str, expression: str, why: str) -> None:
    bind(api, policy(namespace, patch(expression), failurePolicy="Ignore"))
    refused = api.post(config_maps(namespace), config_map())
    assert (refused.status, refused.reason) == (500, "InternalError")
    assert why in refused.message


def test_identity_is_the_servers(api: Api, namespace: str) -> None:
    uid = "00000000-0000-0000-0000-000000000000"
    bind(api, policy(namespace, apply(f'Object{{metadata: Object.metadata{{uid: "{uid}"}}}}')))
    assert api.post(config_maps(namespace), config_map()).ok()["metadata"]["uid"] != uid


MOVED: Final[dict[str, tuple[str, int, str]]] = {
    "the namespace": ('metadata: Object.metadata{namespace: "default"}', 400, "namespace"),
    "the version of a new object": (
        'metadata: Object.metadata{resourceVersion: "5"}',
        500,
        "resourceVersion",
    ),
}


@pytest.mark.parametrize(("parts", "status", "why"), MOVED.values(), ids=MOVED)
def test_where_an_object_belongs(api: Api, namespace: str, parts: str, status: int, why: str) -> None:
    bind(api, policy(namespace, apply(f"Object{{{parts}}}")))
    refused = api.post(config_maps(namespace), config_map())
    assert refused.status == status
    assert why in refused.message


def test_the_name_cannot_change_with_an_update(api: Api, namespace: str) -> None:
    api.post(config_maps(namespace), config_map()).ok()
    bind(api, policy(namespace, apply('Object{metadata: Object.metadata{name: "other"}}')))
    refused = api.patch(f"{config_maps(namespace)}/a", {"data": {"k": "v"}})
    assert 400 <= refused.status < 500
    assert api.get(f"{config_maps(namespace)}/a").ok()["metadata"]["name"] == "a"


def test_nobody_owns_what_a_policy_sets(api: Api, namespace: str) -> None:
    bind(api, policy(namespace, apply('Object{data: {"set": "by policy", "k": "other"}}')))
    created = api.post(f"{config_maps(namespace)}?fieldManager=me", config_map(k="v")).ok()
    assert created["data"] == {"set": "by policy", "k": "other"}
    (entry,) = created["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:k": {}}}


def test_updates_patches_and_applies_are_changed_too(api: Api, namespace: str) -> None:
    bind(api, policy(namespace, apply('Object{data: {"by": request.operation}}')))
    path = f"{config_maps(namespace)}/a"
    assert api.post(config_maps(namespace), config_map()).ok()["data"]["by"] == "CREATE"
    assert api.put(path, config_map(k="1")).ok()["data"]["by"] == "UPDATE"
    assert api.patch(path, {"data": {"by": "me"}}).ok()["data"]["by"] == "UPDATE"
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}
    answer = api.apply(f"{config_maps(namespace)}/b?fieldManager=m", applied)
    assert answer.ok()["data"]["by"] == "CREATE"
    assert api.delete(path).status == 200


def test_a_dry_run_stores_nothing(api: Api, namespace: str) -> None:
    bind(api, policy(namespace, apply('Object{data: {"dry": string(request.dryRun)}}')))
    path = config_maps(namespace)
    assert api.post(f"{path}?dryRun=All", config_map()).ok()["data"] == {"dry": "true"}
    assert api.get(f"{path}/a").status == 404
    assert api.post(path, config_map()).ok()["data"] == {"dry": "false"}


def test_generated_names(api: Api, namespace: str) -> None:
    """The name is not known yet; a refusal tells what it begins with."""
    bind(
        api,
        policy(
            namespace,
            apply('Object{data: {"has": string(has(object.metadata.name)), "x": string(object.data.x)}}'),
        ),
    )
    body = {"metadata": {"generateName": "g-"}, "data": {"x": "1"}}
    assert api.post(config_maps(namespace), body).ok()["data"]["has"] == "false"
    refused = api.post(config_maps(namespace), {"metadata": {"generateName": "g-"}})
    assert refused.json["details"]["name"] == "g-"


# ---- order and reinvocation


def counter(key: str) -> Any:
    return apply(f'Object{{data: {{"{key}": string(int(object.data[?"{key}"].orValue("0")) + 1)}}}}')


def test_policies_are_asked_in_the_order_of_their_names(api: Api, namespace: str) -> None:
    for letter in "cab":
        add = apply(f'Object{{data: {{"order": object.data[?"order"].orValue("") + "{letter}"}}}}')
        bind(api, policy(namespace, add, name=f"{letter}-{namespace}"))
    assert api.post(config_maps(namespace), config_map(k="v")).ok()["data"]["order"] == "abc"


def test_who_wants_it_is_asked_once_more_after_a_change(api: Api, namespace: str) -> None:
    """And then no more, however often they change the object: there is no loop."""
    for name, reinvocation in (("a", "IfNeeded"), ("b", "Never"), ("c", "IfNeeded")):
        bind(
            api, policy(namespace, counter(name), name=f"{name}-{namespace}", reinvocationPolicy=reinvocation)
        )
    assert api.post(config_maps(namespace), config_map(k="v")).ok()["data"] == {
        "k": "v",
        "a": "2",
        "b": "1",
        "c": "2",
    }


def test_without_a_change_nobody_is_asked_again(api: Api, namespace: str) -> None:
    conditions = [{"name": "c", "expression": "object.data.k == 'v'"}]
    bind(api, policy(namespace, counter("n"), reinvocationPolicy="IfNeeded", matchConditions=conditions))
    data = api.post(config_maps(namespace), config_map(k="other")).ok()["data"]
    assert data == {"k": "other"}


def test_matching_is_decided_by_the_object_as_it_came(api: Api, namespace: str) -> None:
    """Conditions see what policies before have changed; selectors do not."""
    label = apply('Object{metadata: Object.metadata{labels: {"stage": "set"}}}')
    bind(api, policy(namespace, label, name=f"a-{namespace}"))
    by_selector = policy(namespace, counter("selector"), name=f"b-{namespace}")
    by_selector["spec"]["matchConstraints"]["objectSelector"] = {"matchLabels": {"stage": "set"}}
    bind(api, by_selector)
    conditions = [{"name": "c", "expression": "object.metadata.?labels.stage.orValue('') == 'set'"}]
    bind(api, policy(namespace, counter("condition"), name=f"c-{namespace}", matchConditions=conditions))
    data = api.post(config_maps(namespace), config_map(k="v")).ok()["data"]
    assert data == {"k": "v", "condition": "1"}


def test_plugins_see_what_policies_have_set(api: Api, namespace: str) -> None:
    """A container that a policy adds gets the limits of the namespace, as those of the client do."""
    limits = {"limits": [{"type": "Container", "default": {"memory": "1Gi"}}]}
    api.post(f"/api/v1/namespaces/{namespace}/limitranges", {"metadata": {"name": "l"}, "spec": limits}).ok()
    side = 'Object{spec: Object.spec{containers: [Object.spec.containers{name: "side", image: "i:1"}]}}'
    bind(api, policy(namespace, apply(side), rules=[rule("", "pods")]))
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    created = api.post(f"/api/v1/namespaces/{namespace}/pods", pod).ok()
    found = {each["name"]: each["resources"]["limits"] for each in created["spec"]["containers"]}
    assert found == {"c": {"memory": "1Gi"}, "side": {"memory": "1Gi"}}


# ---- what policies are about


def test_a_custom_resource_in_the_version_of_the_rule(api: Api, namespace: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "n": {"type": "integer"},
                    "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        },
    }
    defined = define_two_versions(api, schema)
    say = 'open: Object.spec.open{version: request.kind.version, "k": {"deep": 1}}'.replace('"k":', "k:")
    body = policy(
        namespace,
        apply(f"Object{{spec: Object.spec{{n: 5, {say}}}}}"),
        rules=[rule(defined.group, "widgets")],
    )
    bind(api, body)
    for number, asked in enumerate(("v1", "v2")):
        created = defined.create(f"w{number}", namespace, version=asked, spec={"n": 1}).ok()
        assert created["apiVersion"].endswith(asked)
        assert created["spec"] == {"n": 5, "open": {"version": "v1", "k": {"deep": 1}}}


def test_lists_in_fields_without_a_schema_are_owned_as_a_whole(api: Api, namespace: str) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    defined = define(api, definition(new_group(), version("v1", schema=schema)))
    bind(api, policy(namespace, apply("Object{spec: [1]}"), rules=[rule(defined.group, "widgets")]))
    created = defined.create("w", namespace)
    assert created.ok()["spec"] == [1], "what the schema does not declare is not looked at"


def test_a_scale_is_changed(api: Api, namespace: str) -> None:
    api.post(deployments(namespace), deployment()).ok()
    least = apply("Object{spec: Object.spec{replicas: object.spec.replicas < 5 ? 5 : object.spec.replicas}}")
    bind(api, policy(namespace, least, rules=[rule("apps", "deployments/scale")]))
    path = f"{deployments(namespace)}/d"
    assert api.patch(f"{path}/scale", {"spec": {"replicas": 1}}).ok()["spec"]["replicas"] == 5
    assert api.get(path).ok()["spec"]["replicas"] == 5


def test_a_policy_cannot_change_policies(api: Api, namespace: str) -> None:
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
    name = f"p-{namespace}"
    body = policy(namespace, apply('Object{metadata: Object.metadata{labels: {"a": "b"}}}'))
    body["spec"]["matchConstraints"] = {"resourceRules": [everything]}
    bind(api, body)
    try:
        assert api.post(config_maps(namespace), config_map()).ok()["metadata"]["labels"] == {"a": "b"}
        changed = api.patch(f"{POLICIES}/{name}", {"metadata": {"annotations": {"x": "y"}}}).ok()
        assert "labels" not in changed["metadata"]
        review = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        assert "labels" not in review.ok()["metadata"]
    finally:
        unbind(api, name)


def test_a_policy_counts_from_the_next_write_on(api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    api.post(POLICIES, policy(namespace, counter("n"))).ok()
    assert api.post(path, config_map("unbound", k="v")).ok()["data"] == {"k": "v"}
    name = f"p-{namespace}"
    api.post(BINDINGS, {"metadata": {"name": name}, "spec": {"policyName": name}}).ok()
    assert api.post(path, config_map("bound", k="v")).ok()["data"] == {"k": "v", "n": "1"}
    api.patch(f"{POLICIES}/{name}", {"spec": {"mutations": [counter("m")]}}).ok()
    assert api.post(path, config_map("changed", k="v")).ok()["data"] == {"k": "v", "m": "1"}
    api.delete(f"{BINDINGS}/{name}").ok()
    assert api.post(path, config_map("gone", k="v")).ok()["data"] == {"k": "v"}


# ---- parameters


def test_each_set_of_parameters_is_applied(api: Api, namespace: str) -> None:
    for number in range(3):
        body = {
            "metadata": {"name": f"{namespace}-{number}", "labels": {"of": namespace}},
            "data": {"k": f"{number}"},
        }
        api.post(config_maps("default"), body).ok()
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    bind(
        api,
        policy(namespace, apply('Object{data: {"from" + params.data.k: params.data.k}}'), paramKind=kind),
        paramRef={
            "selector": {"matchLabels": {"of": namespace}},
            "namespace": "default",
            "parameterNotFoundAction": "Deny",
        },
    )
    assert api.post(config_maps(namespace), config_map(k="v")).ok()["data"] == {
        "k": "v",
        "from0": "0",
        "from1": "1",
        "from2": "2",
    }


def test_parameters_that_are_deleted_under_a_policy(api: Api, namespace: str) -> None:
    api.post(config_maps("default"), config_map(namespace, k="v")).ok()
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    ref = {"name": namespace, "namespace": "default", "parameterNotFoundAction": "Deny"}
    bind(api, policy(namespace, apply('Object{data: {"k": params.data.k}}'), paramKind=kind), paramRef=ref)
    assert api.post(config_maps(namespace), config_map()).ok()["data"] == {"k": "v"}
    api.delete(f"{config_maps('default')}/{namespace}").ok()
    refused = api.post(config_maps(namespace), config_map("b"))
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert refused.message == (
        f"policy 'p-{namespace}' with binding 'p-{namespace}' denied request: failed to configure binding: "
        "no params found for policy binding with `Deny` parameterNotFoundAction"
    )
    api.patch(f"{BINDINGS}/p-{namespace}", {"spec": {"paramRef": {"parameterNotFoundAction": "Allow"}}}).ok()
    assert "data" not in api.post(config_maps(namespace), config_map("c")).ok()


def test_who_writes_a_policy_must_be_allowed_to_read_its_parameters(api: Api, namespace: str) -> None:
    alice = api.as_caller("alice-token")
    rbac.grant(api, "", "alice", rbac.rule("*", "*", group="admissionregistration.k8s.io"))
    kind = {"apiVersion": "v1", "kind": "Secret"}
    body = policy(namespace, apply('Object{data: {"k": string(params.data.k)}}'), paramKind=kind)
    refused = alice.post(POLICIES, body)
    assert refused.status == 422
    assert 'must have "get" permission on all objects of the referenced paramKind' in refused.message
    api.post(POLICIES, body).ok()
    name = f"p-{namespace}"
    ref = {"name": "s", "namespace": "kube-system", "parameterNotFoundAction": "Deny"}
    spec = {"policyName": name, "paramRef": ref}
    refused = alice.post(BINDINGS, {"metadata": {"name": name}, "spec": spec})
    assert refused.status == 422
    assert 'does not have "get" permission on the object referenced by paramRef' in refused.message
    alice.close()


# ---- what is refused when it is written


def test_deletions_have_nothing_to_change(api: Api, namespace: str) -> None:
    refused = api.post(POLICIES, policy(namespace, counter("n"), rules=[rule("", "configmaps", "DELETE")]))
    assert refused.status == 422
    assert refused.causes == [("FieldValueNotSupported", "spec.matchConstraints.resourceRules.operations")]


INVALID: Final[dict[str, tuple[dict[str, Any], list[tuple[str, str]]]]] = {
    "no type of patch": ({"mutations": [{}]}, [("FieldValueRequired", "spec.mutations[0].patchType")]),
    "no patch of its type": (
        {"mutations": [{"patchType": "JSONPatch"}]},
        [("FieldValueRequired", "spec.mutations[0].jsonPatch")],
    ),
    "an empty expression": (
        {"mutations": [apply(" ")]},
        [("FieldValueRequired", "spec.mutations[0].applyConfiguration.expression")],
    ),
    "patches of both types": (
        {"mutations": [{**apply("Object{}"), "jsonPatch": {"expression": "[]"}}]},
        [("FieldValueInvalid", "spec.mutations[0].jsonPatch")],
    ),
    "no reinvocation policy": (
        {"reinvocationPolicy": ""},
        [("FieldValueRequired", "spec.reinvocationPolicy")],
    ),
    "another reinvocation policy": (
        {"reinvocationPolicy": "Always"},
        [("FieldValueNotSupported", "spec.reinvocationPolicy")],
    ),
    "a variable that does not compile": (
        {"variables": [{"name": "a", "expression": "b"}]},
        [("FieldValueInvalid", "spec.variables[0].expression")],
    ),
    "patches in a variable": (
        {"variables": [{"name": "a", "expression": "Object{}"}]},
        [("FieldValueInvalid", "spec.variables[0].expression")],
    ),
    "a variable that there is not": (
        {"mutations": [apply("Object{data: variables.none}")]},
        [("FieldValueInvalid", "spec.mutations[0].applyConfiguration.expression")],
    ),
    "too many expressions": ({"mutations": [apply("Object{}")] * 2_001}, [("FieldValueForbidden", "spec")]),
}


@pytest.mark.parametrize(("spec", "causes"), INVALID.values(), ids=INVALID)
def test_what_is_invalid(
    api: Api, namespace: str, spec: dict[str, Any], causes: list[tuple[str, str]]
) -> None:
    body = policy(namespace, counter("n"))
    body["spec"] |= spec
    refused = api.post(POLICIES, body)
    assert (refused.status, refused.causes) == (422, causes)


# ---- bad policies


def refusal(api: Api, namespace: str, name: str = "a") -> Answer:
    refused = api.post(config_maps(namespace), config_map(name, k="v"))
    assert refused.status == 403, refused.body
    return refused


NUMBERS: Final = "[0,1,2,3,4,5,6,7,8,9]"


def test_expressions_that_cost_too_much_hold_up_nobody(api: Api, namespace: str) -> None:
    nested = "a + b + c + d + e + f"
    for name in "fedcba":
        nested = (
            f"{NUMBERS}.map({name}, {nested})" if name == "f" else f"{NUMBERS}.map({name}, size({nested}))"
        )
    bind(api, policy(namespace, apply(f'Object{{data: {{"n": string(size({nested}))}}}}')))
    with longest_turn(api) as turn:
        refused = refusal(api, namespace)
    assert "actual cost limit exceeded" in refused.message
    assert turn.thread_cpu_s <= 0.05


def doubled(times: int) -> list[dict[str, str]]:
    """Variables, each twice as large as the one before, which cost nothing."""
    return [
        {"name": f"v{n}", "expression": f"[variables.v{n - 1}, variables.v{n - 1}]" if n else "['x']"}
        for n in range(times)
    ]


@pytest.mark.parametrize("kind", ["merged", "patch"])
def test_patches_that_are_huge_hold_up_nobody(api: Api, namespace: str, kind: str) -> None:
    value = "variables.v29"
    mutation = (
        apply(f"Object{{data: {{'a': {value}}}}}")
        if kind == "merged"
        else patch(f"[JSONPatch{{op: 'add', path: '/data', value: {value}}}]")
    )
    bind(api, policy(namespace, mutation, variables=doubled(30)))
    with longest_turn(api) as turn:
        refused = refusal(api, namespace)
    assert "the patch is longer than 3145728 bytes" in refused.message
    assert turn.thread_cpu_s <= 0.05


def test_patches_that_multiply_hold_up_nobody(api: Api, namespace: str) -> None:
    copies = ", ".join(
        f"JSONPatch{{op: 'copy', from: '/metadata/annotations', path: '/metadata/annotations/a{n}'}}"
        for n in range(30)
    )
    first = "JSONPatch{op: 'add', path: '/metadata/annotations', value: {'a': 'b'}}"
    bind(api, policy(namespace, patch(f"[{first}, {copies}]")))
    with longest_turn(api) as turn:
        refused = refusal(api, namespace)
    assert "copies" in refused.message
    assert turn.thread_cpu_s <= 0.05


def test_large_objects_hold_up_nobody(api: Api, namespace: str) -> None:
    bind(api, policy(namespace, counter("n"), patch("[JSONPatch{op: 'add', path: '/data/p', value: '1'}]")))
    body = config_map(**{f"k{number}": "v" * 20 for number in range(20_000)})
    with longest_turn(api) as turn:
        created = api.post(config_maps(namespace), body).ok()
    assert (created["data"]["n"], created["data"]["p"]) == ("1", "1")
    assert turn.thread_cpu_s <= 0.05


PUT_PARAMS: Final = "[JSONPatch{op: 'add', path: '/data', value: params.data}]"


def add_annotation(number: int) -> str:
    return f"JSONPatch{{op: 'add', path: '/metadata/annotations/k{number}', value: 'v'}}"


MANY_MUTATIONS: Final = {
    "merged": [apply(f"Object{{data: {{'k{number}': 'v'}}}}") for number in range(1_000)],
    "patches": [patch(f"[{add_annotation(number)}]") for number in range(1_000)],
}


@pytest.mark.parametrize("mutations", MANY_MUTATIONS.values(), ids=MANY_MUTATIONS)
def test_many_mutations_hold_up_nobody(api: Api, namespace: str, mutations: list[dict[str, Any]]) -> None:
    """Each works on the whole object, which is small."""
    bind(api, policy(namespace, *mutations))
    body = config_map(**{f"m{number}": "v" for number in range(500)})
    body["metadata"]["annotations"] = {"a": "b"}
    # The first write compiles the expressions.
    api.post(f"{config_maps(namespace)}?dryRun=All", body).ok()
    with longest_turn(api) as turn:
        api.post(config_maps(namespace), body).ok()
    assert turn.thread_cpu_s <= TURN_S


def test_mutations_that_add_much_together_hold_up_nobody(api: Api, namespace: str) -> None:
    """Each adds what is little by itself, to what those before it have made."""
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec}}
    widgets = define(api, definition(new_group(), version(schema=schema)))
    data = {f"k{number}": "" for number in range(1_000)}
    api.post(config_maps(namespace), {"metadata": {"name": "params"}, "data": data}).ok()
    puts = [f"[JSONPatch{{op: 'add', path: '/spec/p{each}', value: params.data}}]" for each in range(20)]
    bind(
        api,
        policy(
            namespace,
            *map(patch, puts),
            rules=[rule(widgets.group, "widgets")],
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        ),
        paramRef={"name": "params", "namespace": namespace, "parameterNotFoundAction": "Deny"},
    )
    widgets.create("a", namespace, spec={"a": "b"}).ok()
    with longest_turn(api) as turn:
        created = widgets.create("b", namespace, spec={"a": "b"}).ok()
    assert created["spec"] == {"a": "b", **{f"p{each}": data for each in range(20)}}
    assert turn.thread_cpu_s <= TURN_S


def test_defaults_of_what_policies_add_hold_up_nobody(api: Api, namespace: str) -> None:
    values = {"type": "array", "items": {"type": "integer"}, "default": [0] * 5_000}
    items = {"type": "array", "items": {"type": "object", "properties": {"values": values}}}
    widgets = define(
        api, definition(new_group(), version(schema={"type": "object", "properties": {"items": items}}))
    )
    value = f"[{','.join(['{}'] * 250)}]"
    mutation = patch(f"[JSONPatch{{op: 'add', path: '/items', value: {value}}}]")
    bind(api, policy(namespace, mutation, rules=[rule(widgets.group, "widgets")]))
    assert widgets.create("a", namespace).status == 413
    with longest_turn(api) as turn:
        assert widgets.create("a", namespace).status == 413
    assert turn.thread_cpu_s <= TURN_S


@pytest.mark.parametrize("mutation", [apply("Object{data: params.data}"), patch(PUT_PARAMS)])
def test_what_policies_add_holds_up_nobody(api: Api, namespace: str, mutation: dict[str, Any]) -> None:
    """The object is small until then."""
    data = {f"k{number}": "" for number in range(60_000)}
    api.post(config_maps(namespace), {"metadata": {"name": "params"}, "data": data}).ok()
    bind(
        api,
        policy(namespace, mutation, paramKind={"apiVersion": "v1", "kind": "ConfigMap"}),
        paramRef={"name": "params", "namespace": namespace, "parameterNotFoundAction": "Deny"},
    )
    with longest_turn(api) as turn:
        created = api.post(config_maps(namespace), config_map()).ok()
    assert created["data"] == data
    assert turn.thread_cpu_s <= TURN_S


def test_many_policies_that_do_not_match(api: Api, namespace: str) -> None:
    body = policy(namespace, counter("n"))
    body["spec"]["matchConstraints"]["objectSelector"] = {"matchLabels": {"never": "there"}}
    names = [f"{namespace}-{number}" for number in range(200)]
    for name in names:
        bind(api, {**body, "metadata": {"name": name}})
    api.post(config_maps(namespace), config_map("first", k="v")).ok()
    with longest_turn(api) as turn:
        assert api.post(config_maps(namespace), config_map(k="v")).ok()["data"] == {"k": "v"}
    assert turn.thread_cpu_s <= 0.05


def test_metrics(api: Api, namespace: str) -> None:
    bind(api, policy(namespace, counter("n"), apply("Object{data: object.none}")))
    refusal(api, namespace)
    text = metrics_of(api)
    for error_type in ("no_error", "invalid_error"):
        labels = f'error_type="{error_type}",policy="p-{namespace}",policy_binding="p-{namespace}"'
        assert f"apiserver_mutating_admission_policy_check_total{{{labels}}} 1\n" in text
        assert f"apiserver_mutating_admission_policy_check_duration_seconds_count{{{labels}}} 1\n" in text


def test_policies_about_all_objects_of_a_type_and_about_some(api: Api, namespace: str) -> None:
    """What is known of a kind of write, and what of one object, does not change the order."""
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    names = [f"{letter}-{namespace}" for letter in "abcd"]

    def order(labels: dict[str, str]) -> str:
        body = {"metadata": {"generateName": "s-", "labels": labels}}
        return str(api.post(secrets, body).ok()["metadata"]["annotations"]["order"])

    try:
        for name in names:
            add = f'object.metadata.?annotations.order.orValue("") + "{name[0]}"'
            body = policy(
                namespace,
                apply(f'Object{{metadata: Object.metadata{{annotations: {{"order": {add}}}}}}}'),
                name=name,
                rules=[rule("", "secrets")],
            )
            del body["spec"]["matchConstraints"]["namespaceSelector"]
            if name[0] == "c":
                body["spec"]["matchConstraints"]["objectSelector"] = {"matchLabels": {"some": "yes"}}
            bind(api, body)
        assert order({"some": "yes"}) == "abcd"
        assert order({"some": "no"}) == "abd"
        only = {"matchResources": {"resourceRules": [rule("", "configmaps")]}}
        api.patch(f"{BINDINGS}/{names[1]}", {"spec": only}).ok()
        assert order({"some": "yes"}) == "acd"
        api.delete(f"{BINDINGS}/{names[3]}").ok()
        assert order({}) == "a"
        api.post(BINDINGS, {"metadata": {"name": names[3]}, "spec": {"policyName": names[3]}}).ok()
    finally:
        for name in names:
            unbind(api, name)
