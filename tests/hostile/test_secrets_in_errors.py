"""Values of Secrets, and of what is encrypted at rest, are in no error that they cause, nor in audit events.

Whoever may read audit events at level Metadata may not read what is in the objects.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from tests.support.api import APPLY, STRATEGIC_PATCH, Answer, Api
from tests.support.audit import audit_flags
from tests.support.definitions import Defined, define, definition, version
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

SECRETS: Final = "/api/v1/namespaces/default/secrets"
VALUE: Final = "a value of somebody"
ENCODED: Final = base64.b64encode(VALUE.encode()).decode()
# In a form that may be a label, a name or a uid.
PLAIN: Final = base64.b64encode(b"hunter2hunter2!").decode()
GROUP: Final = "vault.example.com"
ENCRYPTION: Final = {
    "apiVersion": "apiserver.config.k8s.io/v1",
    "kind": "EncryptionConfiguration",
    "resources": [
        {
            "resources": [f"widgets.{GROUP}"],
            "providers": [
                {"aesgcm": {"keys": [{"name": "a", "secret": base64.b64encode(b"k" * 32).decode()}]}}
            ],
        }
    ],
}


class Audited:
    """A server, its audit events, and a search for values in both."""

    def __init__(self, api: Api, log: Path) -> None:
        self.api, self._log = api, log

    def event(self, answer: Answer) -> dict[str, Any]:
        """Returns the last event of a request."""
        audit_id = answer.headers["audit-id"]

        def events() -> list[dict[str, Any]]:
            lines = self._log.read_bytes().splitlines(keepends=True)
            found = (orjson.loads(each) for each in lines if each.endswith(b"\n"))
            return [each for each in found if each["auditID"] == audit_id]

        return until(events, lambda found: any(each["stage"] == "ResponseComplete" for each in found))[-1]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    path = tmp_path_factory.mktemp("secrets")
    (path / "encryption.json").write_text(json.dumps(ENCRYPTION))
    encryption = f"--encryption-provider-config={path / 'encryption.json'}"
    flags = (*audit_flags(path), encryption)
    with ServerProcess(path / "data", *flags) as server, Api(server) as api:
        yield Audited(api, path / "audit.log")


# The beginning of each value is enough, in whatever form.
FORMS: Final = tuple(
    each[:10] for each in (VALUE, ENCODED, PLAIN, VALUE.encode().hex(), PLAIN.encode().hex())
)


def holds_value(text: str) -> bool:
    return "hunter2" in text or any(each in text for each in FORMS)


def patch(audited: Audited, path: str, body: Any, form: str) -> Answer:
    return audited.api.send("PATCH", path, body, type=form)


# Where a value of the stored object is copied to, and what has to be there before.
COPIES: Final[dict[str, tuple[str, list[tuple[str, Any]]]]] = {
    "name": ("/metadata/name", []),
    "kind": ("/kind", []),
    "apiVersion": ("/apiVersion", []),
    "uid": ("/metadata/uid", []),
    "namespace": ("/metadata/namespace", []),
    "resourceVersion": ("/metadata/resourceVersion", []),
    "generateName": ("/metadata/generateName", []),
    "generation": ("/metadata/generation", []),
    "creationTimestamp": ("/metadata/creationTimestamp", []),
    "deletionTimestamp": ("/metadata/deletionTimestamp", []),
    "type": ("/type", []),
    "immutable": ("/immutable", []),
    "metadata": ("/metadata", []),
    "labels": ("/metadata/labels", []),
    "a label": ("/metadata/labels/a", [("/metadata/labels", {})]),
    "a finalizer": ("/metadata/finalizers/0", [("/metadata/finalizers", [])]),
    "an owner": ("/metadata/ownerReferences/0", [("/metadata/ownerReferences", [])]),
    "managed fields": ("/metadata/managedFields", []),
    **{
        f"an owner's {field}": (
            f"/metadata/ownerReferences/0/{field}",
            [("/metadata/ownerReferences", [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": ""}])],
        )
        for field in ("apiVersion", "kind", "name", "uid", "controller")
    },
}


@pytest.mark.parametrize("op", ["copy", "move"])
@pytest.mark.parametrize("source", ["/data/k", "/data"])
@pytest.mark.parametrize(("target", "before"), COPIES.values(), ids=COPIES)
def test_what_a_patch_copies_is_not_told(
    audited: Audited, target: str, before: list[tuple[str, Any]], source: str, op: str
) -> None:
    name = "copied"
    audited.api.delete(f"{SECRETS}/{name}")
    made = audited.api.post(SECRETS, {"metadata": {"name": name}, "data": {"k": PLAIN, "l": ENCODED}}).ok()
    added = [{"op": "add", "path": path, "value": value} for path, value in before]
    copied = {"op": op, "from": source, "path": target}
    # Where the value itself would do, something else is refused.
    wrong = {"op": "add", "path": "/metadata/annotations", "value": {"not a key!": ""}}
    answer = patch(audited, f"{SECRETS}/{name}", [*added, copied, wrong], "json-patch")
    assert 400 <= answer.status < 500
    event = audited.event(answer)
    assert not holds_value(answer.body.decode())
    assert not holds_value(str(answer.all_headers))
    assert not holds_value(json.dumps(event))
    assert event["responseStatus"]["code"] == answer.status
    stored = audited.api.get(f"{SECRETS}/{name}").ok()
    assert stored["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def applied(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "patched"}, **fields}


# What does not fit the stored object, or the type: the whole object, or the patch, was quoted.
PATCHES: Final[dict[str, tuple[Any, str]]] = {
    "a label that is a number": ({"metadata": {"labels": 5}}, "merge"),
    "a value that is a list": ({"data": {"a": [VALUE]}}, "merge"),
    "a value that is not encoded": ({"data": {"a": VALUE}}, "merge"),
    "data that are a text": ({"data": VALUE}, "merge"),
    "data that are a text, merged": ({"data": VALUE}, STRATEGIC_PATCH),
    "a list that is a text, merged": ({"metadata": {"finalizers": VALUE}}, STRATEGIC_PATCH),
    "a list of texts, merged": ({"metadata": {"ownerReferences": [VALUE]}}, STRATEGIC_PATCH),
    "a value that is a list, applied": (applied(data={"a": [VALUE]}), f"{APPLY}"),
    "data that are a text, applied": (applied(data=VALUE), f"{APPLY}"),
    "a label that is a list": ([{"op": "add", "path": "/metadata/labels", "value": []}], "json-patch"),
    "another kind": ([{"op": "replace", "path": "/kind", "value": "X"}], "json-patch"),
}


@pytest.mark.parametrize(("body", "form"), PATCHES.values(), ids=PATCHES)
def test_what_a_patch_does_not_fit_is_not_told(audited: Audited, body: Any, form: str) -> None:
    audited.api.post(SECRETS, {"metadata": {"name": "patched"}, "data": {"k": ENCODED}})
    query = "?fieldManager=m" if form == APPLY else ""
    answer = patch(audited, f"{SECRETS}/patched{query}", body, form)
    assert 400 <= answer.status < 500
    assert not holds_value(answer.body.decode())
    assert not holds_value(json.dumps(audited.event(answer)))


def test_a_body_that_is_none_is_not_recorded(audited: Audited) -> None:
    """Its beginning is what the client has sent, and sees."""
    answer = audited.api.send("POST", SECRETS, b'{"data":{"k":"%b"},}' % PLAIN.encode())
    assert answer.status == 400
    assert holds_value(answer.body.decode())
    event = audited.event(answer)
    assert not holds_value(json.dumps(event))
    assert event["responseStatus"]["reason"] == "BadRequest"


def test_what_a_client_sends_of_metadata_is_told(audited: Audited) -> None:
    answer = audited.api.post(SECRETS, {"metadata": {"name": "a", "labels": {"a": "not a label"}}})
    assert '"not a label"' in answer.message
    status = audited.event(answer)["responseStatus"]
    assert "not a label" not in json.dumps(status)
    assert [each["field"] for each in status["details"]["causes"]] == ["metadata.labels"]


# ---- what is encrypted


@pytest.fixture(scope="module")
def widgets(audited: Audited) -> Defined:
    properties = {
        "a": {"type": "string", "maxLength": 40, "pattern": "^[a-z]*$"},
        "b": {"type": "string", "maxLength": 40},
    }
    rule = {"rule": "self.b != 'x'", "messageExpression": "'it is ' + self.b + self.a"}
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": [rule]}
    schema = {"type": "object", "properties": {"spec": spec}}
    return define(audited.api, definition(GROUP, version(schema=schema)))


# What is sent, and whether it is seen by who has sent it.
OBJECTS: Final[dict[str, tuple[dict[str, Any], bool]]] = {
    "a value that does not match": ({"a": VALUE, "b": ""}, True),
    "a value that is a list": ({"a": [VALUE], "b": ""}, False),
    "a message of a rule": ({"a": "abc", "b": "x"}, False),
}


@pytest.mark.parametrize(("spec", "is_seen"), OBJECTS.values(), ids=OBJECTS)
def test_values_that_are_encrypted_are_not_recorded(
    audited: Audited, widgets: Defined, spec: dict[str, Any], is_seen: bool
) -> None:
    answer = widgets.create("a", spec=spec)
    assert answer.status == 422
    assert holds_value(answer.body.decode()) is is_seen
    event = audited.event(answer)
    assert not holds_value(json.dumps(event))
    assert "it is x" not in json.dumps(event)
    causes = event["responseStatus"]["details"]["causes"]
    assert any(each["field"].startswith("spec") for each in causes)


def test_values_that_are_encrypted_are_not_copied_into_errors(audited: Audited, widgets: Defined) -> None:
    widgets.create("copied", spec={"a": "", "b": VALUE}).ok()
    path = f"{widgets.objects()}/copied"
    for target in ("/metadata/name", "/metadata/uid", "/spec/a", "/kind"):
        body = [{"op": "copy", "from": "/spec/b", "path": target}]
        answer = patch(audited, path, body, "json-patch")
        assert 400 <= answer.status < 500
        assert not holds_value(answer.body.decode())
        assert not holds_value(json.dumps(audited.event(answer)))
    answer = patch(audited, path, {"metadata": {"labels": 5}}, "merge")
    assert not holds_value(answer.body.decode())


def test_other_objects_are_told_of_as_in_kubernetes(audited: Audited) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    audited.api.post(path, {"metadata": {"name": "a"}, "data": {"k": VALUE}}).ok()
    body = [
        {"op": "add", "path": "/metadata/labels", "value": {}},
        {"op": "copy", "from": "/data/k", "path": "/metadata/labels/a"},
    ]
    answer = patch(audited, f"{path}/a", body, "json-patch")
    assert holds_value(answer.message)
    assert holds_value(json.dumps(audited.event(answer)))


# ---- credentials in URLs


def test_tokens_in_queries_are_not_recorded(audited: Audited) -> None:
    for query in (f"access_token={PLAIN}", f"a=b&access%5Ftoken={PLAIN}", f"password={PLAIN}&a=b"):
        answer = audited.api.get(f"/api/v1/namespaces?{query}")
        event = audited.event(answer)
        assert not holds_value(json.dumps(event))
        assert "REDACTED" in event["requestURI"]
