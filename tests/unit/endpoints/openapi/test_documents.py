"""Documents of OpenAPI, from resources and definitions. Row I20.

Source: k8s.io/kube-openapi; k8s.io/apiserver, pkg/endpoints/installer.go.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from operator import itemgetter
from typing import Any, Final

import orjson
import pytest

from apiserver.catalogue.builtins import Catalogue
from apiserver.endpoints.compression import decompress
from apiserver.endpoints.openapi.document_cache import DocumentCache
from apiserver.endpoints.openapi.documents import Documents, v2_document
from apiserver.endpoints.openapi.gnostic import V2_TYPE, V3_TYPE
from apiserver.endpoints.openapi.operations import Operations
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import DEFAULT_RELEASE
from apiserver.meta.vocabulary import GroupVersion
from apiserver.registry.served_resource import ResourceTable, ServedResource, Subresource
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.go_fields import enums_of
from apiserver.schema.structural import Schema, ValueKind
from apiserver.wire.media_types import JSON

KUBERNETES: Final = Brand()
OWN: Final = Brand(group_domain="example.org", vendor="acme")
SCHEMAS: Final = BuiltinSchemas((1, 34))
CORE: Final = GroupVersion("", "v1")
APPS: Final = GroupVersion("apps", "v1")
STABLE: Final = GroupVersion("stable.example.com", "v1")
V1: Final = "io.k8s.api.core.v1."
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
PATCH_TYPES: Final = ("application/merge-patch+json",)


@cache
def builtins(brand: Brand) -> ResourceTable:
    return Catalogue(brand, SCHEMAS, event_ttl_s=3600).resources()


def operations(brand: Brand) -> Operations:
    return Operations(brand, (JSON, "application/yaml"), PATCH_TYPES)


@cache
def v3(group_version: GroupVersion, brand: Brand = KUBERNETES) -> Any:
    documents = Documents(SCHEMAS.definitions(), brand, operations(brand), DEFAULT_RELEASE)
    return documents.v3(group_version, builtins(brand).group_versions[group_version])


@cache
def v2() -> Any:
    documents = Documents(SCHEMAS.definitions(), KUBERNETES, operations(KUBERNETES), DEFAULT_RELEASE)
    return v2_document(documents.v2_all(builtins(KUBERNETES).group_versions), DEFAULT_RELEASE)


def schema(name: str, group_version: GroupVersion = CORE) -> Any:
    return v3(group_version)["components"]["schemas"][name]


# ---- operations

PODS: Final = "/api/v1/namespaces/{namespace}/pods"
POD: Final = f"{PODS}/{{name}}"
DEPLOYMENT: Final = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
# Names that generated clients have made well known.
IDS: Final = {
    ("get", "/api/v1/"): "getCoreV1APIResources",
    ("get", "/apis/coordination.k8s.io/v1/"): "getCoordinationV1APIResources",
    ("post", PODS): "createCoreV1NamespacedPod",
    ("get", PODS): "listCoreV1NamespacedPod",
    ("delete", PODS): "deleteCoreV1CollectionNamespacedPod",
    ("get", "/api/v1/pods"): "listCoreV1PodForAllNamespaces",
    ("get", POD): "readCoreV1NamespacedPod",
    ("put", POD): "replaceCoreV1NamespacedPod",
    ("patch", POD): "patchCoreV1NamespacedPod",
    ("delete", POD): "deleteCoreV1NamespacedPod",
    ("get", f"{POD}/status"): "readCoreV1NamespacedPodStatus",
    ("get", f"{POD}/log"): "readCoreV1NamespacedPodLog",
    ("post", f"{POD}/binding"): "createCoreV1NamespacedPodBinding",
    ("post", f"{POD}/eviction"): "createCoreV1NamespacedPodEviction",
    ("get", f"{POD}/exec"): "connectCoreV1GetNamespacedPodExec",
    ("post", f"{POD}/portforward"): "connectCoreV1PostNamespacedPodPortforward",
    ("put", f"{POD}/proxy"): "connectCoreV1PutNamespacedPodProxy",
    ("get", f"{POD}/proxy/{{path}}"): "connectCoreV1GetNamespacedPodProxyWithPath",
    ("get", "/api/v1/nodes"): "listCoreV1Node",
    ("delete", "/api/v1/nodes"): "deleteCoreV1CollectionNode",
    ("put", "/api/v1/namespaces/{name}/finalize"): "replaceCoreV1NamespaceFinalize",
    (
        "post",
        "/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
    ): "createCoreV1NamespacedServiceAccountToken",
    ("get", "/api/v1/watch/pods"): "watchCoreV1PodListForAllNamespaces",
    ("get", "/api/v1/watch/namespaces/{namespace}/pods"): "watchCoreV1NamespacedPodList",
    ("get", "/api/v1/watch/namespaces/{namespace}/pods/{name}"): "watchCoreV1NamespacedPod",
    ("get", "/api/v1/watch/nodes/{name}"): "watchCoreV1Node",
    ("get", f"{DEPLOYMENT}/scale"): "readAppsV1NamespacedDeploymentScale",
    (
        "post",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    ): "createAuthorizationV1SubjectAccessReview",
}


@pytest.mark.parametrize(("method", "path"), IDS, ids=IDS.values())
def test_operation_ids(method: str, path: str) -> None:
    assert v2()["paths"][path][method]["operationId"] == IDS[method, path]


def test_operation_ids_leave_out_the_domain_of_groups() -> None:
    resource = replace_group("rbac.authorization.k8s.io")
    paths = dict(operations(KUBERNETES).of_resource(resource))
    collection = paths["/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/widgets"]
    assert collection["post"]["operationId"] == "createRbacAuthorizationV1NamespacedWidget"
    assert collection["post"]["tags"] == ["rbacAuthorization_v1"]
    others = dict(operations(KUBERNETES).of_resource(replace_group("stable.example.com")))
    collection = others["/apis/stable.example.com/v1/namespaces/{namespace}/widgets"]
    assert collection["post"]["operationId"] == "createStableExampleComV1NamespacedWidget"


ACTIONS: Final = {
    "a list": (PODS, "get", "list", ("", "v1", "Pod")),
    "a create": (PODS, "post", "post", ("", "v1", "Pod")),
    "many deletes": (PODS, "delete", "deletecollection", ("", "v1", "Pod")),
    "an update": (POD, "put", "put", ("", "v1", "Pod")),
    "a status": (f"{POD}/status", "patch", "patch", ("", "v1", "Pod")),
    "a scale": (f"{DEPLOYMENT}/scale", "get", "get", ("autoscaling", "v1", "Scale")),
    "an eviction": (f"{POD}/eviction", "post", "post", ("policy", "v1", "Eviction")),
    "a connection": (f"{POD}/exec", "get", "connect", ("", "v1", "PodExecOptions")),
    "a log": (f"{POD}/log", "get", "get", ("", "v1", "Pod")),
    "a watch": ("/api/v1/watch/pods", "get", "watchlist", ("", "v1", "Pod")),
}


@pytest.mark.parametrize(("path", "method", "action", "kind"), ACTIONS.values(), ids=ACTIONS)
def test_descriptions_of_operations(path: str, method: str, action: str, kind: tuple[str, str, str]) -> None:
    operation = v2()["paths"][path][method]
    assert operation["x-kubernetes-action"] == action
    told = operation["x-kubernetes-group-version-kind"]
    assert (told["group"], told["version"], told["kind"]) == kind


PARAMETERS: Final = {
    "lists": (PODS, "get", {"watch", "limit", "continue", "labelSelector", "sendInitialEvents"}),
    "creates": (PODS, "post", {"dryRun", "fieldManager", "fieldValidation"}),
    "patches": (POD, "patch", {"dryRun", "fieldManager", "fieldValidation", "force"}),
    "deletes": (POD, "delete", {"dryRun", "gracePeriodSeconds", "propagationPolicy"}),
    "of subresources": (f"{POD}/status", "put", {"dryRun", "fieldManager", "fieldValidation"}),
    "commands": (f"{POD}/exec", "get", set()),
}


@pytest.mark.parametrize(("path", "method", "names"), PARAMETERS.values(), ids=PARAMETERS)
def test_parameters(path: str, method: str, names: set[str]) -> None:
    """kubectl asks whether a patch takes `dryRun` and `fieldValidation` before it sends them."""
    item = v3(CORE)["paths"][path]
    own = {each["name"]: each for each in item[method].get("parameters", ())}
    assert names <= set(own)
    shared = {each["name"]: each for each in item["parameters"]}
    assert shared["namespace"]["in"] == "path"
    assert shared["namespace"]["required"] is True
    assert all(each["in"] == "query" for each in own.values())
    whole = [(each["name"], each["in"]) for each in (*item["parameters"], *own.values())]
    assert len(set(whole)) == len(whole)


def test_request_bodies_and_responses() -> None:
    item = v3(CORE)["paths"][POD]
    pod = {"$ref": f"#/components/schemas/{V1}Pod"}
    assert item["put"]["requestBody"] == {"required": True, "content": {"*/*": {"schema": pod}}}
    assert list(item["patch"]["requestBody"]["content"]) == list(PATCH_TYPES)
    assert item["delete"]["requestBody"]["content"]["*/*"]["schema"]["$ref"].endswith("DeleteOptions")
    assert "required" not in item["delete"]["requestBody"]
    answers = item["put"]["responses"]
    assert list(answers) == ["200", "201", "401"]
    assert answers["200"]["content"] == {type_: {"schema": pod} for type_ in (JSON, "application/yaml")}
    watch = v3(CORE)["paths"]["/api/v1/watch/pods"]["get"]["responses"]["200"]["content"]
    assert watch["application/json;stream=watch"]["schema"]["$ref"].endswith("v1.WatchEvent")
    log = v3(CORE)["paths"][f"{POD}/log"]["get"]["responses"]["200"]["content"]
    assert log == {"text/plain": {"schema": {"type": "string"}}}


def test_an_operation_in_v2() -> None:
    operation = v2()["paths"][PODS]["post"]
    assert operation["parameters"][0] == {
        "name": "body",
        "in": "body",
        "required": True,
        "schema": {"$ref": f"#/definitions/{V1}Pod"},
    }
    dry_run = next(each for each in operation["parameters"] if each["name"] == "dryRun")
    assert (dry_run["in"], dry_run["type"], "schema" in dry_run) == ("query", "string", False)
    assert operation["produces"] == [JSON, "application/yaml"]
    assert operation["consumes"] == ["*/*"]
    assert v2()["paths"][POD]["patch"]["consumes"] == list(PATCH_TYPES)
    assert operation["responses"]["201"]["schema"] == {"$ref": f"#/definitions/{V1}Pod"}
    assert "requestBody" not in operation


DELETION: Final = f"{META}DeleteOptions"


@pytest.mark.parametrize(
    "name", ["dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"], ids=str
)
def test_i20_parameters_have_the_texts_of_the_options(name: str) -> None:
    text = schema(DELETION)["properties"][name]["description"]
    for item in (v3(CORE)["paths"][POD], v2()["paths"][POD]):
        parameters = {each["name"]: each for each in item["delete"]["parameters"]}
        assert parameters[name]["description"] == text


# ---- documents that are of no version

GROUP: Final = f"{META}APIGroup"
PAGES: Final[Mapping[str, tuple[str, str, str, list[str]]]] = {
    "/.well-known/openid-configuration/": (
        "getServiceAccountIssuerOpenIDConfiguration",
        "WellKnown",
        "",
        [JSON],
    ),
    "/openid/v1/jwks/": ("getServiceAccountIssuerOpenIDKeyset", "openid", "", ["application/jwk-set+json"]),
    "/version/": ("getCodeVersion", "version", "io.k8s.apimachinery.pkg.version.Info", [JSON]),
    "/api/": ("getCoreAPIVersions", "core", f"{META}APIVersions", [JSON, "application/yaml"]),
    "/apis/": ("getAPIVersions", "apis", f"{META}APIGroupList", [JSON, "application/yaml"]),
    "/apis/apps/": ("getAppsAPIGroup", "apps", GROUP, [JSON, "application/yaml"]),
    "/apis/flowcontrol.apiserver.k8s.io/": (
        "getFlowcontrolApiserverAPIGroup",
        "flowcontrolApiserver",
        GROUP,
        [JSON, "application/yaml"],
    ),
}


@pytest.mark.parametrize("path", PAGES)
def test_i20_paths_of_the_server_and_of_groups_have_documents(path: str) -> None:
    documents = Documents(SCHEMAS.definitions(), KUBERNETES, operations(KUBERNETES), DEFAULT_RELEASE)
    pages = documents.v3_pages({each.group for each in builtins(KUBERNETES).group_versions})
    operation_id, tag, definition, types = PAGES[path]
    document = pages[path.strip("/")]
    assert document["paths"].keys() == {path}
    operation = document["paths"][path]["get"]
    assert (operation["operationId"], operation["tags"]) == (operation_id, [tag])
    content = operation["responses"]["200"]["content"]
    assert list(content) == types
    if definition:
        assert content[types[0]]["schema"] == {"$ref": f"#/components/schemas/{definition}"}
        assert definition in document["components"]["schemas"]
    else:
        assert content[types[0]]["schema"] == {"type": "string"}
    assert v2()["paths"][path]["get"]["operationId"] == operation_id


# ---- schemas


def test_a_kind() -> None:
    config_map = schema(f"{V1}ConfigMap")
    assert config_map["x-kubernetes-group-version-kind"] == [
        {"group": "", "kind": "ConfigMap", "version": "v1"}
    ]
    assert config_map["description"].startswith("ConfigMap holds")
    assert config_map["properties"]["kind"]["type"] == "string"
    assert "enum" not in config_map["properties"]["kind"]
    assert config_map["properties"]["binaryData"]["additionalProperties"] == {
        "format": "byte",
        "type": "string",
    }


# Source: kube-openapi, pkg/generators: what Go cannot leave out has its zero as default.
DEFAULTS: Final[Mapping[str, tuple[str, str, Any]]] = {
    "a struct": ("Pod", "spec", None),  # It has required fields: nothing is not valid.
    "a struct without required fields": ("Pod", "metadata", {}),
    "a pointer": ("PodSpec", "securityContext", None),
    "a text that is always shown": ("Container", "name", ""),
    "a text that is left out when empty": ("Container", "image", None),
    "a number": ("ContainerPort", "containerPort", 0),
    "a declared one": ("ContainerPort", "protocol", "TCP"),
    "a struct that is not a pointer": ("Container", "resources", {}),
    "a time": ("Event", "firstTimestamp", None),
    "a list": ("PodSpec", "containers", None),
}


@pytest.mark.parametrize(("name", "field", "default"), DEFAULTS.values(), ids=DEFAULTS)
def test_defaults(name: str, field: str, default: Any) -> None:
    assert schema(f"{V1}{name}")["properties"][field].get("default") == default


def test_items_and_values_have_no_default() -> None:
    """As in 1.36: they are never absent."""
    assert schema(f"{V1}Container")["properties"]["args"]["items"] == {"type": "string"}
    assert schema(f"{META}ObjectMeta")["properties"]["labels"]["additionalProperties"] == {"type": "string"}
    assert schema(f"{V1}Container")["properties"]["env"]["items"] == {
        "$ref": f"#/components/schemas/{V1}EnvVar"
    }


ENUMS: Final[Mapping[str, tuple[str, str, list[str] | None]]] = {
    "a field": ("PodSpec", "restartPolicy", ["Always", "Never", "OnFailure"]),
    "a pointer": ("VolumeMount", "mountPropagation", ["Bidirectional", "HostToContainer", "None"]),
    "one that may be empty": (
        "HostPathVolumeSource",
        "type",
        [
            *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate"),
            "Socket",
        ],
    ),
    "items": ("ServiceSpec", "ipFamilies.items", ["", "IPv4", "IPv6"]),
    "values": (
        "PersistentVolumeClaimStatus",
        "allocatedResourceStatuses.additionalProperties",
        [
            *("ControllerResizeInProgress", "ControllerResizeInfeasible"),
            *("NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"),
        ],
    ),
    "no enumeration, as other values are right, too": ("NodeCondition", "status", None),
}


@pytest.mark.parametrize(("name", "path", "values"), ENUMS.values(), ids=ENUMS)
def test_enumerations(name: str, path: str, values: list[str] | None) -> None:
    for schemas in (v3(CORE)["components"]["schemas"], v2()["definitions"]):
        node = schemas[f"{V1}{name}"]["properties"]
        for step in path.split("."):
            node = node[step]
        assert node.get("enum") == values


def enums_in(node: Any) -> list[Any]:
    if isinstance(node, list):
        return [enum for each in node for enum in enums_in(each)]
    if not isinstance(node, dict):
        return []
    own = [node["enum"]] if isinstance(node.get("enum"), list) else []
    return own + [enum for each in node.values() for enum in enums_in(each)]


def test_no_field_has_an_enumeration_without_the_gate() -> None:
    """The gate OpenAPIEnums. A default that is no value of the enumeration is there then."""
    documents = Documents(
        SCHEMAS.definitions(), KUBERNETES, operations(KUBERNETES), DEFAULT_RELEASE, shows_enums=False
    )
    versions = builtins(KUBERNETES).group_versions
    plain = documents.v3(CORE, versions[CORE])["components"]["schemas"]
    assert enums_in(plain) == []
    assert enums_in(documents.v2_all(versions).schemas) == []
    assert enums_in(v3(CORE)["components"]["schemas"])
    assert plain[f"{V1}ServicePort"]["properties"]["protocol"]["default"] == "TCP"


def test_every_enumeration_is_of_a_field_that_there_is() -> None:
    definitions = BuiltinSchemas((1, 36)).definitions()
    count = 0
    for name, definition in definitions.items():
        for path in enums_of(name):
            node = definition["properties"]
            for step in path.split("."):
                node = node[step]
            assert "string" in node["type"]
            count += 1
    assert count > 100


def test_how_lists_merge() -> None:
    containers = schema(f"{V1}PodSpec")["properties"]["containers"]
    assert containers["x-kubernetes-list-type"] == "map"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert schema(f"{V1}PodSpec")["required"] == ["containers"]


def test_references_stand_alone_in_v3() -> None:
    spec = schema(f"{V1}Pod")["properties"]["spec"]
    assert spec["allOf"] == [{"$ref": f"#/components/schemas/{V1}PodSpec"}]
    assert spec["description"]
    assert "$ref" not in spec
    assert v2()["definitions"][f"{V1}Pod"]["properties"]["spec"]["$ref"] == f"#/definitions/{V1}PodSpec"


def test_int_or_string() -> None:
    name = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
    assert schema(name)["oneOf"] == [{"type": "integer"}, {"type": "string"}]
    assert schema(name)["format"] == "int-or-string"
    assert v2()["definitions"][name] == {
        **{key: value for key, value in schema(name).items() if key == "description"},
        "format": "int-or-string",
        "type": "string",
    }
    assert v2()["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"] == "string"


def test_delete_options_have_the_version_of_the_document() -> None:
    kinds = schema(f"{META}DeleteOptions", APPS)["x-kubernetes-group-version-kind"]
    assert {(kind["group"], kind["version"]) for kind in kinds} == {("", "v1"), ("apps", "v1")}


def test_another_brand() -> None:
    group_version = GroupVersion("coordination.example.org", "v1")
    document = v3(group_version, OWN)
    lease = document["components"]["schemas"]["io.k8s.api.coordination.v1.Lease"]
    assert lease["x-acme-group-version-kind"] == [
        {"group": group_version.group, "kind": "Lease", "version": "v1"}
    ]
    path = "/apis/coordination.example.org/v1/namespaces/{namespace}/leases"
    operation = document["paths"][path]["post"]
    assert operation["operationId"] == "createCoordinationV1NamespacedLease"
    assert operation["x-acme-action"] == "post"
    assert "x-kubernetes-" not in str(document)


def replace_group(group: str) -> ServedResource:
    return ServedResource(
        GroupVersion(group, "v1"),
        "widgets",
        "Widget",
        is_namespaced=True,
        schema=lambda: Schema(ValueKind.ANY_OBJECT, "object"),
        subresources={"status": Subresource("status")},
    )


def untold(is_v2: bool, texts: Mapping[str, str]) -> Any:
    raise KeyError("type")


@pytest.mark.parametrize("openapi", [None, untold], ids=["it brings no schema", "its schema is corrupt"])
def test_a_kind_without_a_schema(openapi: Callable[[bool, Mapping[str, str]], Any] | None) -> None:
    widget = replace(replace_group("stable.example.com"), openapi=openapi)
    documents = Documents(SCHEMAS.definitions(), KUBERNETES, operations(KUBERNETES), DEFAULT_RELEASE)
    schemas = documents.v3(widget.group_version, [widget])["components"]["schemas"]
    kind = {"group": "stable.example.com", "version": "v1"}
    one, many = schemas["com.example.stable.v1.Widget"], schemas["com.example.stable.v1.WidgetList"]
    assert one["x-kubernetes-group-version-kind"] == [{**kind, "kind": "Widget"}]
    assert one["x-kubernetes-preserve-unknown-fields"] is True
    assert many["x-kubernetes-group-version-kind"] == [{**kind, "kind": "WidgetList"}]
    assert many["properties"]["items"]["items"]["$ref"].endswith("com.example.stable.v1.Widget")
    assert f"{META}ObjectMeta" in schemas


# ---- what is cache


def document_cache() -> DocumentCache:
    return DocumentCache(KUBERNETES, SCHEMAS, operations(KUBERNETES), DEFAULT_RELEASE)


async def test_a_version_with_unchanged_resources_keeps_its_document() -> None:
    cache, table = document_cache(), builtins(KUBERNETES)
    first = {each: await cache.v3(table, each, JSON) for each in (CORE, APPS)}
    before = await cache.digests(table)
    pods = next(each for each in table.resources if each.resource == "pods")
    without_pods = ResourceTable(tuple(each for each in table.resources if each is not pods))
    after = await cache.digests(without_pods)
    assert {name for name in after if after[name] != before[name]} == {"api/v1"}
    assert (await cache.v3(without_pods, APPS, JSON)).compressed is first[APPS].compressed
    assert b"NamespacedPodStatus" not in decompress((await cache.v3(without_pods, CORE, JSON)).compressed)


async def test_a_version_is_added_and_removed() -> None:
    cache, table = document_cache(), ResourceTable(tuple(builtins(KUBERNETES).group_versions[APPS]))
    widget = replace_group("stable.example.com")
    more = ResourceTable((*table.resources, widget))
    digests = await cache.digests(table)
    assert [name for name in digests if name.startswith("apis/")] == ["apis/apps/v1", "apis/apps"]
    before, digests = digests, await cache.digests(more)
    assert digests.keys() - before.keys() == {"apis/stable.example.com/v1", "apis/stable.example.com"}
    assert before.items() <= digests.items()
    assert b"com.example.stable.v1.Widget" in decompress((await cache.v2(more, JSON)).compressed)
    assert await cache.digests(table) == before
    assert b"com.example.stable.v1.Widget" not in decompress((await cache.v2(table, JSON)).compressed)


def custom(plural: str, built: Counter[str]) -> ServedResource:
    """Returns a custom resource, which counts how often its schema is asked for."""

    def openapi(is_v2: bool, texts: Mapping[str, str]) -> Any:
        built[plural] += 1
        return {"type": "object", "description": f"of {plural}, v{2 if is_v2 else 3}"}

    kind = plural.capitalize()
    return replace(
        replace_group("stable.example.com"), resource=plural, kind=kind, is_custom=True, openapi=openapi
    )


async def test_of_a_changed_version_only_what_has_changed_is_built() -> None:
    built: Counter[str] = Counter()
    table = ResourceTable(tuple(builtins(KUBERNETES).group_versions[APPS]))
    old = [custom(f"t{number}s", built) for number in range(5)]
    before = ResourceTable((*table.resources, *old))
    after = ResourceTable((*table.resources, *old[1:], custom("news", built)))
    cache = document_cache()
    for each in (before, after):
        await cache.v3(each, STABLE, JSON)
        await cache.v2(each, JSON)
    assert built == {**{f"t{number}s": 2 for number in range(5)}, "news": 2}
    joined = decompress((await cache.v3(after, STABLE, JSON)).compressed)
    documents = Documents(SCHEMAS.definitions(), KUBERNETES, operations(KUBERNETES), DEFAULT_RELEASE)
    assert joined == orjson.dumps(documents.v3(STABLE, after.group_versions[STABLE]))
    paths, definitions = itemgetter("paths", "definitions")(
        orjson.loads(decompress((await cache.v2(after, JSON)).compressed))
    )
    assert definitions["com.example.stable.v1.News"]["description"] == "of news, v2"
    assert "com.example.stable.v1.T0s" not in definitions
    assert [each for each in paths if "t0s" in each] == []
    assert {"/apis/stable.example.com/v1/", "/apis/stable.example.com/v1/news"} <= paths.keys()
    assert await cache.digests(after) == await document_cache().digests(after)


async def test_the_digest_is_of_the_content() -> None:
    one, other, table = document_cache(), document_cache(), builtins(KUBERNETES)
    assert await one.digests(table) == await other.digests(table)
    changed = [replace(each, short_names=("x",)) for each in table.group_versions[APPS]]
    assert (await one.digests(ResourceTable(tuple(changed))))["apis/apps/v1"] == (
        (await other.v3(table, APPS, JSON)).digest
    )


async def test_all_forms_have_one_digest_and_are_encoded_once() -> None:
    cache, table = document_cache(), builtins(KUBERNETES)
    together = await asyncio.gather(*(cache.v3(table, APPS, V3_TYPE) for _ in range(3)))
    assert len({id(each.compressed) for each in together}) == 1
    assert together[0].digest == (await cache.v3(table, APPS, JSON)).digest
    v2_forms = [await cache.v2(table, form) for form in (JSON, V2_TYPE, JSON)]
    assert len({each.digest for each in v2_forms}) == 1
    assert v2_forms[0].compressed is v2_forms[2].compressed


async def test_building_does_not_block_the_loop() -> None:
    cache, table = document_cache(), builtins(KUBERNETES)
    making = asyncio.create_task(cache.v2(table, JSON))
    turns = 0
    while not making.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 100


@pytest.mark.slow
async def test_all_documents_are_built_in_seconds() -> None:
    cache, table = document_cache(), builtins(KUBERNETES)
    began = time.process_time()
    await cache.digests(table)
    assert time.process_time() - began < 3
