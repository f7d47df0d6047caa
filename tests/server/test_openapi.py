"""OpenAPI as clients get it. Row I20; source: kube-openapi, pkg/handler and pkg/handler3."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import Any, Final

import orjson
import pytest
from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV30SpecValidator

from tests.support.api import Api
from tests.support.served import BUILT_IN, versions
from tests.support.server_process import ServerProcess

JSON: Final = "application/json"
PROTOBUF: Final = {
    version: f"application/com.github.proto-openapi.spec.{version}.v1.0+protobuf" for version in ("v2", "v3")
}
OLD_PROTOBUF: Final = {version: name.replace(".v1.0", "@v1.0") for version, name in PROTOBUF.items()}
DOCUMENTS: Final = {"v2": "/openapi/v2", "v3": "/openapi/v3/apis/apps/v1"}
METHODS: Final = ("get", "put", "post", "patch", "delete")
BY_VERB: Final = {
    "create": "post",
    "delete": "delete",
    "deletecollection": "delete",
    "get": "get",
    "list": "get",
    "patch": "patch",
    "update": "put",
    "watch": "get",
}


@pytest.fixture(scope="module")
def documents(server: ServerProcess) -> dict[str, Any]:
    """OpenAPI v3: each document of the index."""
    with Api(server) as api:
        return {path: api.get(url).ok() for path, url in index(api).items()}


def index(api: Api) -> dict[str, str]:
    paths = api.get("/openapi/v3").json["paths"]
    return {path: each["serverRelativeURL"] for path, each in paths.items()}


# ---- negotiation

FORMS: Final = {
    "JSON": (JSON, JSON),
    "anything": ("*/*", JSON),
    "any application": ("application/*", JSON),
    "protobuf, as it is called": ("{protobuf}", "{protobuf}"),
    "protobuf, as clients call it": ("{old}", "{protobuf}"),
    "the first that there is": ("application/xml, {old}, application/json", "{protobuf}"),
    "the best": ("{old};q=0.5, application/json;q=0.9", JSON),
    "nothing that there is": ("application/xml", None),
    "JSON refused": ("application/json;q=0", None),
    "no weight at all": ("application/json;q=high", None),
}


@pytest.mark.parametrize("version", DOCUMENTS)
@pytest.mark.parametrize(("accept", "sent"), FORMS.values(), ids=FORMS)
def test_the_form_of_a_document(api: Api, version: str, accept: str, sent: str | None) -> None:
    names = {"protobuf": PROTOBUF[version], "old": OLD_PROTOBUF[version]}
    answer = api.get(DOCUMENTS[version], headers={"Accept": accept.format(**names)})
    if sent is None:
        assert (answer.status, answer.body, answer.headers.get("content-type")) == (406, b"", None)
        return
    assert (answer.status, answer.headers["content-type"]) == (200, sent.format(**names))
    assert "Accept" in answer.headers["vary"]
    if answer.headers["content-type"] == JSON:
        # The first field is the version; in protobuf it is a text of a few letters in field 1.
        assert answer.json.get("swagger", answer.json.get("openapi")) in ("2.0", "3.0.0")
    else:
        assert answer.body[:2] == {"v2": b"\x0a\x03", "v3": b"\x0a\x05"}[version]


@pytest.mark.parametrize("version", DOCUMENTS)
@pytest.mark.parametrize("accept", [JSON, "{old}"])
def test_documents_are_compressed_for_clients_that_accept_gzip(api: Api, version: str, accept: str) -> None:
    accept = accept.format(old=OLD_PROTOBUF[version])
    plain = api.get(DOCUMENTS[version], headers={"Accept": accept})
    small = api.get(DOCUMENTS[version], headers={"Accept": accept, "Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert small.headers["content-encoding"] == "gzip"
    assert "Accept-Encoding" in small.headers["vary"]
    assert gzip.decompress(small.body) == plain.body
    assert len(small.body) < len(plain.body) / 4


@pytest.mark.parametrize("path", [*DOCUMENTS.values(), "/openapi/v3"])
def test_other_methods(api: Api, path: str) -> None:
    assert api.post(path, {}).status == 405
    head = api.send("HEAD", path)
    assert (head.status, head.body) == (200, b"")


# ---- caching


@pytest.mark.parametrize("path", [*DOCUMENTS.values(), "/openapi/v3"])
def test_unchanged_documents_are_not_sent_again(api: Api, path: str) -> None:
    first = api.get(path)
    etag = first.headers["etag"]
    assert etag.startswith('"')
    assert etag.endswith('"')
    for known in (etag, f'"other", {etag}', f"W/{etag}", "*"):
        again = api.get(path, headers={"If-None-Match": known})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
    assert api.get(path, headers={"If-None-Match": '"other"'}).body == first.body


# As kube-apiserver 1.36 lists them, beside those of groups and their versions.
PAGES: Final = ("/.well-known/openid-configuration", "/api", "/apis", "/openid/v1/jwks", "/version")


def test_the_index_links_to_immutable_documents(api: Api) -> None:
    found = index(api)
    of_versions = set(versions(api))
    # Other tests may have defined more, whose groups have no document.
    groups = {path.rpartition("/")[0] for path in BUILT_IN if path.startswith("/apis/")}
    assert {f"/{path}" for path in found} == {*of_versions, *groups, *PAGES}
    for path, url in found.items():
        assert url.startswith(f"/openapi/v3/{path}?hash=")
        answer = api.get(url)
        assert answer.status == 200
        assert answer.headers["etag"].strip('"') == url.partition("hash=")[2]
        assert [value for name, value in answer.all_headers if name == "cache-control"] == [
            "public, immutable"
        ]
        date, expires = (parsedate_to_datetime(answer.headers[name]) for name in ("date", "expires"))
        assert 364 <= (expires - date).days <= 366


def test_without_a_hash_a_document_is_not_immutable(api: Api) -> None:
    answer = api.get("/openapi/v3/api/v1")
    assert answer.headers["cache-control"] == "no-cache, private"
    assert "expires" not in answer.headers


def test_an_old_hash_redirects_to_the_new_one(api: Api) -> None:
    answer = api.get("/openapi/v3/apis/apps/v1?hash=ABC")
    assert (answer.status, answer.body) == (301, b"")
    assert answer.headers["location"] == index(api)["apis/apps/v1"]


@pytest.mark.parametrize(
    "path", ["/openapi/v3/apis/nope/v1", "/openapi/v3/apis/nope", "/openapi/v3/api/", "/openapi/v1"]
)
def test_unknown_documents(api: Api, path: str) -> None:
    assert api.get(path).status == 404


def test_who_may_read(api: Api) -> None:
    """Row I20: whoever has proved to be somebody."""
    with api.as_caller("alice-token") as alice, api.as_caller("") as nobody:
        for path in (*DOCUMENTS.values(), "/openapi/v3"):
            assert alice.get(path).status == 200
            assert nobody.get(path).status == 403


# ---- content


def below(node: Any) -> Iterator[dict[str, Any]]:
    """All objects in a document."""
    if isinstance(node, dict):
        yield node
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from below(each)


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, item in document["paths"].items():
        yield from ((path, method, item[method]) for method in METHODS if method in item)


def test_every_verb_in_discovery_has_an_operation(api: Api, documents: dict[str, Any]) -> None:
    for path, document in documents.items():
        for resource in api.get(f"/{path}").json.get("resources", ()):
            name, _, sub = resource["name"].partition("/")
            base = f"/{path}/{'namespaces/{namespace}/' if resource['namespaced'] else ''}{name}"
            item = f"{base}/{{name}}{f'/{sub}' if sub else ''}"
            for verb in resource["verbs"]:
                on_collection = not sub and verb in ("create", "list", "deletecollection", "watch")
                where = document["paths"][base if on_collection else item]
                assert BY_VERB[verb] in where, (resource["name"], verb)


DELETED: Final[dict[str, dict[str, Any]]] = {
    "/api/v1/namespaces/default/configmaps": {},
    "/api/v1/namespaces/default/resourcequotas": {},
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {"spec": {"minAvailable": 1}},
    "/apis/resource.k8s.io/v1/deviceclasses": {"spec": {}},
    "/apis/storage.k8s.io/v1/csidrivers": {"spec": {}},
    "/apis/storage.k8s.io/v1/csinodes": {"spec": {"drivers": []}},
    "/apis/storage.k8s.io/v1/storageclasses": {"provisioner": "x.io/p"},
    "/apis/storage.k8s.io/v1/volumeattributesclasses": {"driverName": "x.io", "parameters": {"a": "b"}},
}


@pytest.mark.parametrize(("path", "fields"), DELETED.items(), ids=DELETED)
def test_a_delete_answers_what_its_operation_says(
    api: Api, documents: dict[str, Any], path: str, fields: dict[str, Any]
) -> None:
    """Row G04: generated clients make what is answered a model of that kind."""
    created = api.post(path, {"metadata": {"generateName": "a-"}, **fields}).ok()
    answered = api.delete(f"{path}/{created['metadata']['name']}").ok()
    version = next(each for each in documents if path.startswith(f"/{each}/"))
    operation = documents[version]["paths"][path.replace("default", "{namespace}") + "/{name}"]["delete"]
    for code in ("200", "202"):
        (schema,) = {each["schema"]["$ref"] for each in operation["responses"][code]["content"].values()}
        assert schema.rpartition(".")[2] == answered["kind"]
    if answered["kind"] != "Status":
        assert answered["metadata"]["name"] == created["metadata"]["name"]


def test_operation_ids_are_unique(documents: dict[str, Any]) -> None:
    names = Counter(
        operation["operationId"]
        for document in documents.values()
        for _, _, operation in operations(document)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_every_kind_has_its_group_version_kind(api: Api, documents: dict[str, Any]) -> None:
    for root in BUILT_IN:  # Definitions may give their lists other names.
        path = root.removeprefix("/")
        document = documents[path]
        kinds = {
            (kind["group"], kind["version"], kind["kind"])
            for schema in document["components"]["schemas"].values()
            for kind in schema.get("x-kubernetes-group-version-kind", ())
        }
        group, _, version = path.removeprefix("apis/").removeprefix("api/").rpartition("/")
        for resource in api.get(root).ok()["resources"]:
            kind = (resource.get("group", group), resource.get("version", version), resource["kind"])
            # What connects to a node has no documents.
            assert kind in kinds or resource["kind"].endswith("Options"), kind
            if "list" in resource["verbs"]:
                assert (group, version, f"{resource['kind']}List") in kinds
        assert (group, version, "DeleteOptions") in kinds


def test_all_references_resolve(api: Api, documents: dict[str, Any]) -> None:
    for document in documents.values():
        known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert {each["$ref"] for each in below(document) if isinstance(each.get("$ref"), str)} <= known
    v2 = api.get("/openapi/v2").ok()
    known = {f"#/definitions/{name}" for name in v2["definitions"]}
    assert {each["$ref"] for each in below(v2) if isinstance(each.get("$ref"), str)} <= known


def test_v2_has_all_paths_and_definitions(api: Api, documents: dict[str, Any]) -> None:
    v2 = api.get("/openapi/v2").ok()
    assert {f"{page}/" for page in (*PAGES, "/apis/apps")} <= set(v2["paths"])
    assert set(v2["paths"]) == set(chain.from_iterable(each["paths"] for each in documents.values()))
    schemas = chain.from_iterable(each["components"]["schemas"] for each in documents.values())
    assert set(v2["definitions"]) == set(schemas)


def test_protobuf_documents_have_the_content_of_json(api: Api) -> None:
    """Texts stand in protobuf as they are: descriptions, ids, names."""
    for version, path in DOCUMENTS.items():
        document = api.get(path).ok()
        message = api.get(path, headers={"Accept": OLD_PROTOBUF[version]}).body
        for _, _, operation in operations(document):
            assert operation["operationId"].encode() in message
        schemas = document.get("definitions") or document["components"]["schemas"]
        for name, schema in schemas.items():
            assert name.encode() in message
            assert schema.get("description", "").encode() in message


# ---- by the standard


@pytest.mark.parametrize("path", ["apis/apps/v1", "apis/authorization.k8s.io/v1"])
def test_v3_is_valid(documents: dict[str, Any], path: str) -> None:
    OpenAPIV30SpecValidator(documents[path]).validate()


@pytest.mark.slow
def test_v3_of_every_version_is_valid(documents: dict[str, Any]) -> None:
    for path, document in documents.items():
        errors = [str(error) for error in OpenAPIV30SpecValidator(document).iter_errors()]
        assert errors == [], path


@pytest.mark.slow
def test_v2_is_valid(api: Api) -> None:
    OpenAPIV2SpecValidator(orjson.loads(api.get("/openapi/v2").body)).validate()
