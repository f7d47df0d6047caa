"""Custom resources of several versions, with the conversions None and Webhook. Rows S01, S02."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, Final

import pytest

from tests.hostile.support import longest_turn
from tests.support.api import Answer, Api
from tests.support.conversion_webhook import ConversionWebhook, answer_to, honest
from tests.support.definitions import Defined, define, definition, new_group, version
from tests.support.eventually import WITHIN_S
from tests.support.fixtures import server_with
from tests.support.webhook_server import Review

MANY: Final = 30
# As long as the server waits.


def _spec(**properties: str) -> dict[str, Any]:
    fields = {name: {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _with(**properties: Any) -> dict[str, Any]:
    return _object(spec=_object(**properties))


V1: Final = version("v1", schema=_spec(size="integer", note="string"))
V2: Final = version("v2", schema=_spec(length="string", note="string"), storage=False)
SWAP: Final = (
    {"op": "replace", "path": "/spec/versions/0/storage", "value": False},
    {"op": "replace", "path": "/spec/versions/1/storage", "value": True},
)


# Other tests look at all that is served.
server = server_with()


@pytest.fixture(scope="module")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConversionWebhook]:
    with ConversionWebhook(tmp_path_factory.mktemp("webhook")) as webhook:
        yield webhook


@pytest.fixture
def defined(api: Api, webhook: ConversionWebhook) -> Defined:
    """A definition with two versions, v1 stored, and a webhook that converts correctly at first."""
    webhook.converting = honest
    webhook.asked.clear()
    return define(api, definition(new_group(), V1, V2, conversion=webhook.conversion()))


def test_every_verb_in_a_version_that_is_not_stored(defined: Defined, api: Api, namespace: str) -> None:
    v1, v2 = defined.objects(namespace), defined.objects(namespace, "v2")
    made = defined.create("a", namespace, "v2", spec={"length": "5cm", "note": "x"}).ok()
    assert made["spec"] == {"length": "5cm", "note": "x"}
    assert api.get(f"{v1}/a").ok()["spec"] == {"size": 5, "note": "x"}
    assert api.get(f"{v2}/a").ok() == made
    replaced = api.put(f"{v2}/a", {**made, "spec": {"length": "6cm"}}).ok()
    assert (replaced["spec"], replaced["metadata"]["generation"]) == ({"length": "6cm"}, 2)
    assert api.patch(f"{v2}/a", {"spec": {"note": "y"}}).ok()["spec"] == {"length": "6cm", "note": "y"}
    applied = api.apply(f"{v2}/a?fieldManager=m&force=true", defined.body("a", "v2", spec={"length": "7cm"}))
    assert applied.ok()["spec"]["length"] == "7cm"
    assert api.get(f"{v1}/a").ok()["spec"]["size"] == 7
    assert [each["spec"]["length"] for each in api.get(v2).ok()["items"]] == ["7cm"]
    assert api.delete(f"{v2}/a").ok()["status"] == "Success"
    assert api.get(v1).ok()["items"] == []


def test_a_list_is_converted_in_one_question_and_only_once(
    defined: Defined, api: Api, webhook: ConversionWebhook, namespace: str
) -> None:
    for number in range(MANY):
        defined.create(f"o{number:02}", namespace, spec={"size": number}).ok()
    assert webhook.asked == []
    path = defined.objects(namespace, "v2")
    first = api.get(path).ok()["items"]
    assert [each["spec"]["length"] for each in first] == [f"{number}cm" for number in range(MANY)]
    assert webhook.asked == [MANY]
    assert api.get(path).ok()["items"] == first
    assert api.get(f"{path}/o07").ok()["spec"] == {"length": "7cm"}
    assert webhook.asked == [MANY]


def test_objects_that_were_stored_in_several_versions(defined: Defined, api: Api, namespace: str) -> None:
    """A list of both; each is stored in the new version when it is next written, even if nothing changes."""
    old = defined.create("old", namespace, spec={"size": 1}).ok()
    defined.change(SWAP)
    _until_stored_as_v2(defined, api, namespace)
    for name, field, values in (("v1", "size", [2, 1]), ("v2", "length", ["2cm", "1cm"])):
        items = api.get(defined.objects(namespace, name)).ok()["items"]
        assert [each["spec"][field] for each in items] == values
    again = api.put(f"{defined.objects(namespace)}/old", old).ok()
    assert again["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]
    assert again["metadata"]["generation"] == 1
    same = api.put(f"{defined.objects(namespace)}/old", again).ok()
    assert same["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]


def _until_stored_as_v2(defined: Defined, api: Api, namespace: str) -> None:
    """An object `new`, made once the new storage version has come through."""
    ends_at = time.monotonic() + WITHIN_S
    while api.get(defined.path).ok()["status"]["storedVersions"] != ["v1", "v2"]:
        assert time.monotonic() < ends_at
    defined.create("new", namespace, "v2", spec={"length": "2cm"}).ok()


def test_watchers_of_a_converted_version_see_each_event_and_it_is_converted_once(
    defined: Defined, api: Api, webhook: ConversionWebhook, namespace: str
) -> None:
    defined.create("before", namespace, spec={"size": 1}).ok()
    path = f"{defined.objects(namespace, 'v2')}?watch=true"
    with api.watch(path) as one, api.watch(path) as two:
        for stream in (one, two):
            assert stream.next()["object"]["spec"] == {"length": "1cm"}
        webhook.asked.clear()
        defined.create("after", namespace, spec={"size": 2}).ok()
        api.delete(f"{defined.objects(namespace)}/before").ok()
        for stream in (one, two):
            events = [stream.next(), stream.next()]
            assert [(each["type"], each["object"]["spec"]) for each in events] == [
                ("ADDED", {"length": "2cm"}),
                ("DELETED", {"length": "1cm"}),
            ]
            assert {each["object"]["apiVersion"] for each in events} == {f"{defined.group}/v2"}
        assert sum(webhook.asked) == 1  # the one that is gone had been converted before


def test_fields_to_select_by_are_those_of_the_version(
    api: Api, webhook: ConversionWebhook, namespace: str
) -> None:
    webhook.converting = honest
    v1 = {**V1, "selectableFields": [{"jsonPath": ".spec.size"}]}
    v2 = {**V2, "selectableFields": [{"jsonPath": ".spec.length"}]}
    defined = define(api, definition(new_group(), v1, v2, conversion=webhook.conversion()))
    for number in range(4):
        defined.create(f"o{number}", namespace, spec={"size": number % 2}).ok()
    for name, selector in (("v1", "spec.size%3D1"), ("v2", "spec.length%3D1cm")):
        items = api.get(f"{defined.objects(namespace, name)}?fieldSelector={selector}").ok()["items"]
        assert [each["metadata"]["name"] for each in items] == ["o1", "o3"]
    refused = api.get(f"{defined.objects(namespace, 'v2')}?fieldSelector=spec.size%3D1")
    assert (refused.status, refused.message) == (400, "field label not supported: spec.size")


def test_a_watch_by_fields_is_of_the_form_that_it_shows(
    api: Api, webhook: ConversionWebhook, namespace: str
) -> None:
    """Rows I18, S02: not stored so, and nobody else converts them, neither before nor meanwhile."""
    webhook.converting = honest
    v1 = {**V1, "selectableFields": [{"jsonPath": ".spec.size"}]}
    v2 = {**V2, "selectableFields": [{"jsonPath": ".spec.length"}]}
    defined = define(api, definition(new_group(), v1, v2, conversion=webhook.conversion()))

    def resize(name: str, size: int) -> None:
        api.patch(f"{defined.objects(namespace)}/{name}", {"spec": {"size": size}}).ok()

    for name, size in (("one", 1), ("two", 2), ("three", 3)):
        defined.create(name, namespace, spec={"size": size}).ok()
    path = f"{defined.objects(namespace, 'v2')}?watch=true&fieldSelector=spec.length"
    with api.watch(f"{path}%3D2cm") as twos, api.watch(f"{path}!%3D2cm&resourceVersion=0") as others:
        assert _event(twos.next()) == ("ADDED", "two", "2cm")
        assert {_event(others.next()) for _ in range(2)} == {
            ("ADDED", "one", "1cm"),
            ("ADDED", "three", "3cm"),
        }
        resize("three", 4)
        assert _event(others.next()) == ("MODIFIED", "three", "4cm")
        resize("three", 2)
        assert _event(twos.next()) == ("ADDED", "three", "2cm")
        assert _event(others.next()) == ("DELETED", "three", "4cm")
        resize("two", 5)
        assert _event(twos.next()) == ("DELETED", "two", "2cm")
        assert _event(others.next()) == ("ADDED", "two", "5cm")
        api.delete(f"{defined.objects(namespace)}/one").ok()
        assert _event(others.next()) == ("DELETED", "one", "1cm")
        api.patch(f"{defined.objects(namespace)}/three", {"spec": {"note": "x"}}).ok()
        assert _event(twos.next()) == ("MODIFIED", "three", "2cm")


def _event(event: dict[str, Any]) -> tuple[str, str, str]:
    found = event["object"]
    return event["type"], found["metadata"]["name"], found["spec"]["length"]


def test_pages_of_what_is_selected_by_fields_of_the_version(
    api: Api, webhook: ConversionWebhook, namespace: str
) -> None:
    """Row K34: whoever asks for few gets as many, and the rest by their tokens."""
    webhook.converting = honest
    v2 = {**V2, "selectableFields": [{"jsonPath": ".spec.length"}]}
    defined = define(api, definition(new_group(), V1, v2, conversion=webhook.conversion()))
    for number in range(7):
        defined.create(f"o{number}", namespace, spec={"size": number % 2}).ok()
    path = f"{defined.objects(namespace, 'v2')}?limit=2&fieldSelector=spec.length%3D0cm"
    pages, token = [], ""
    while True:
        page = api.get(f"{path}&continue={token}").ok()
        pages.append([each["metadata"]["name"] for each in page["items"]])
        if not (token := page["metadata"].get("continue", "")):
            break
    assert pages == [["o0", "o2"], ["o4", "o6"]]


def _changed(change: Callable[[Review, dict[str, Any]], None]) -> Callable[[Review], Any]:
    async def answering(review: Review) -> Review | bytes:
        answer = answer_to(review)
        change(review, answer)
        return answer

    return answering


def _each(field: str, value: Any) -> Callable[[Review, dict[str, Any]], None]:
    """Set a field of the metadata of every object."""

    def change(review: Review, answer: dict[str, Any]) -> None:
        for each in answer["response"]["convertedObjects"]:
            each["metadata"] = {**each["metadata"], field: value}

    return change


def _response(**fields: Any) -> Callable[[Review, dict[str, Any]], None]:
    return lambda review, answer: answer["response"].update(fields)


def _objects(**fields: Any) -> Callable[[Review, dict[str, Any]], None]:
    def change(review: Review, answer: dict[str, Any]) -> None:
        answer["response"]["convertedObjects"] = [
            {**each, **fields} for each in answer["response"]["convertedObjects"]
        ]

    return change


async def _not_json(review: Review) -> Review | bytes:
    return b"<html>sorry</html>"


async def _endless(review: Review) -> Review | bytes:
    return b"[" + b"0," * (9 * 1024 * 1024) + b"0]"


async def _too_many_values(review: Review) -> Review | bytes:
    return b"[" + b"{}," * 1_000_000 + b"{}]"


async def _nothing(review: Review) -> Review | bytes:
    return b"null"


# Source of the texts: apiextensions-apiserver, pkg/apiserver/conversion/webhook_converter.go.
LIES = {
    "another question's answer": (_changed(_response(uid="zz")), 'expected response.uid="'),
    "a failure with its reason": (
        _changed(_response(result={"status": "Failure", "message": "out of order"})),
        "failed: out of order",
    ),
    "a failure without": (
        _changed(_response(result={"status": "Failure"})),
        "response.result.status was 'Failure', not 'Success'",
    ),
    "too few objects": (_changed(_response(convertedObjects=[])), "returned 0 objects, expected 1"),
    "another version": (_changed(_objects(apiVersion="other/v9")), "invalid groupVersion (expected "),
    "another kind": (_changed(_objects(kind="Other")), "invalid kind (expected Widget, received Other)"),
    "no metadata": (_changed(_objects(metadata=None)), "missing metadata in converted object"),
    "another name": (_changed(_each("name", "b")), "must have the same name: a != b"),
    "another uid": (_changed(_each("uid", "b")), "must have the same UID: "),
    "labels that are none": (_changed(_each("labels", {"-": "x"})), 'metadata.labels: Invalid value: "-"'),
    "labels that are no texts": (_changed(_each("labels", {"a": 1})), "metadata.labels[a] must be a string"),
    "no object": (
        _changed(_response(convertedObjects=[7])),
        "at index 0: json: cannot unmarshal number into Go value of type unstructured.detector",
    ),
    "null": (_changed(_response(convertedObjects=[None])), "at index 0: unexpected end of JSON input"),
    "no response": (_changed(lambda review, answer: answer.pop("response")), "no response provided"),
    "no review": (_nothing, "the response is not an object"),
    "no JSON": (_not_json, "the response is not JSON"),
    "an answer without end": (_endless, "the response is longer than"),
    "an answer of a million values": (_too_many_values, "document has more than 250000 values"),
}


@pytest.mark.parametrize(("answering", "text"), LIES.values(), ids=LIES)
def test_wrong_answers_of_a_webhook_are_reported_and_change_nothing(
    answering: Any, text: str, defined: Defined, api: Api, webhook: ConversionWebhook, namespace: str
) -> None:
    """503 where kube-apiserver answers 500: neither the client nor the server is to blame."""
    defined.create("a", namespace, spec={"size": 1}).ok()
    webhook.converting = answering
    path = defined.objects(namespace, "v2")
    for answer in (api.get(f"{path}/a"), api.get(path), api.patch(f"{path}/a", {"spec": {"note": "x"}})):
        assert (answer.status, answer.reason) == (503, "ServiceUnavailable")
        assert answer.message.startswith(f"conversion webhook for {defined.group}/v1, Kind=Widget")
        assert text in answer.message
    assert defined.create("c", namespace, "v2", spec={"length": "1cm"}).status == 503
    # The stored version needs nobody.
    assert api.get(f"{defined.objects(namespace)}/a").ok()["spec"] == {"size": 1}
    webhook.converting = honest
    assert api.get(f"{path}/a").ok()["spec"] == {"length": "1cm"}


def test_only_labels_and_annotations_of_the_metadata_are_taken_over(
    defined: Defined, api: Api, webhook: ConversionWebhook, namespace: str
) -> None:
    made = defined.create("a", namespace, spec={"size": 1}).ok()

    def change(review: Review, answer: dict[str, Any]) -> None:
        _each("labels", {"converted": "yes"})(review, answer)
        _each("finalizers", ["example.com/mine"])(review, answer)
        _each("creationTimestamp", "2001-01-01T00:00:00Z")(review, answer)

    webhook.converting = _changed(change)
    found = api.get(f"{defined.objects(namespace, 'v2')}/a").ok()
    assert found["metadata"] == {**made["metadata"], "labels": {"converted": "yes"}}


def test_a_webhook_that_fails_ends_a_watch_with_an_error(
    defined: Defined, api: Api, webhook: ConversionWebhook, namespace: str
) -> None:
    with api.watch(f"{defined.objects(namespace, 'v2')}?watch=true") as stream:
        webhook.converting = _not_json
        defined.create("a", namespace, spec={"size": 1}).ok()
        event = stream.next()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 503)
        assert stream.body() == b""


def test_a_slow_webhook_keeps_only_those_waiting_who_need_it(
    defined: Defined, api: Api, webhook: ConversionWebhook, namespace: str
) -> None:
    defined.create("a", namespace, spec={"size": 1}).ok()

    may_answer = threading.Event()

    async def slow(review: Review) -> Review | bytes:
        assert await asyncio.to_thread(may_answer.wait, WITHIN_S)
        return answer_to(review)

    webhook.converting = slow
    other = api.as_caller("admin-token")
    with api.watch(f"{defined.objects(namespace, 'v2')}?watch=true") as stream:
        assert other.get(f"{defined.objects(namespace)}/a").ok()["spec"] == {"size": 1}
        may_answer.set()  # and nobody was, before
        assert stream.next()["object"]["spec"] == {"length": "1cm"}
    other.close()


UNREACHABLE = {
    "nobody is there": (
        {"url": "https://127.0.0.1:1/convert"},
        'Post "https://127.0.0.1:1/convert?timeout=30s"',
    ),
    "a service that nobody knows": (
        {"url": None, "service": {"name": "convert", "namespace": "nowhere", "path": "/c"}},
        'Post "https://convert.nowhere.svc:443/c?timeout=30s"',
    ),
    "where clouds hand out credentials": (
        {"url": "https://169.254.169.254/latest/meta-data"},
        "dial tcp 169.254.169.254: address is denied by --webhook-deny-cidrs",
    ),
    "an authority that has not signed": ({"caBundle": ""}, "tls: failed to verify certificate: "),
}


@pytest.mark.parametrize(("client", "text"), UNREACHABLE.values(), ids=UNREACHABLE)
def test_a_webhook_that_cannot_be_reached(
    client: dict[str, Any], text: str, api: Api, webhook: ConversionWebhook, namespace: str
) -> None:
    conversion = webhook.conversion(**client)
    config = conversion["webhook"]["clientConfig"]
    conversion["webhook"]["clientConfig"] = {name: value for name, value in config.items() if value}
    defined = define(api, definition(new_group(), V1, V2, conversion=conversion))
    defined.create("a", namespace, spec={"size": 1}).ok()
    answer = api.get(f"{defined.objects(namespace, 'v2')}/a")
    assert answer.status == 503
    assert text in answer.message
    assert answer.headers["retry-after"] == "1"


def test_a_webhook_is_trusted_by_its_serving_certificate_alone(
    api: Api, webhook: ConversionWebhook, namespace: str
) -> None:
    webhook.converting = honest
    bundle = base64.b64encode(b"text\r\n" + webhook.serving_certificate).decode()
    defined = define(api, definition(new_group(), V1, V2, conversion=webhook.conversion(caBundle=bundle)))
    defined.create("a", namespace, spec={"size": 5}).ok()
    assert api.get(f"{defined.objects(namespace, 'v2')}/a").ok()["spec"] == {"length": "5cm"}


def test_without_a_webhook_versions_differ_in_their_schemas_alone(api: Api, namespace: str) -> None:
    defined = define(api, definition(new_group(), V1, V2))
    defined.create("a", namespace, spec={"size": 1, "note": "x"}).ok()
    found = api.get(f"{defined.objects(namespace, 'v2')}/a").ok()
    assert (found["apiVersion"], found["spec"]) == (f"{defined.group}/v2", {"note": "x"})
    with api.watch(f"{defined.objects(namespace, 'v2')}?watch=true") as stream:
        assert stream.next()["object"] == found


# ---- defaults

TEXT: Final = {"type": "string"}
WITH_DEFAULTS: Final = (
    version(
        "v1",
        schema=_with(a=TEXT, stored={**TEXT, "default": "S"}, inner=_object(x={**TEXT, "default": "X"})),
        additionalPrinterColumns=[{"name": "Stored", "type": "string", "jsonPath": ".spec.stored"}],
    ),
    version(
        "v2",
        schema=_with(a=TEXT, sent={**TEXT, "default": "D"}, inner=_object(y={**TEXT, "default": "Y"})),
        storage=False,
        additionalPrinterColumns=[{"name": "Sent", "type": "string", "jsonPath": ".spec.sent"}],
    ),
)
# In which version something is sent, what, and what v1, which is stored, and v2 show of it. Defaults of the
# version that it is sent in are as if they were sent; v1's are those of whatever is stored.
SENT: Final[dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]]] = {
    "in the stored version": ("v1", {"a": "x"}, {"a": "x", "stored": "S"}, {"a": "x"}),
    "in the other version": ("v2", {"a": "x"}, {"a": "x", "stored": "S"}, {"a": "x"}),
    "with what is not stored": ("v2", {"a": "x", "sent": "7"}, {"a": "x", "stored": "S"}, {"a": "x"}),
    "an object in the stored version": (
        "v1",
        {"inner": {}},
        {"inner": {"x": "X"}, "stored": "S"},
        {"inner": {}},
    ),
    "an object in the other version": (
        "v2",
        {"inner": {}},
        {"inner": {"x": "X"}, "stored": "S"},
        {"inner": {}},
    ),
}


@pytest.fixture
def defaulted(api: Api) -> Defined:
    return define(api, definition(new_group(), *WITH_DEFAULTS))


@pytest.mark.parametrize(("name", "spec", "v1", "v2"), SENT.values(), ids=SENT)
def test_e14_an_object_has_the_defaults_of_the_version_that_is_stored(
    name: str,
    spec: dict[str, Any],
    v1: dict[str, Any],
    v2: dict[str, Any],
    defaulted: Defined,
    api: Api,
    namespace: str,
) -> None:
    """Another version that it is read in prunes it, and adds nothing that nobody sent and nobody stored."""
    shown = {"v1": v1, "v2": v2}
    made = defaulted.create("a", namespace, name, spec=spec).ok()
    assert made["spec"] == shown[name]
    column = {"v1": v1.get("stored"), "v2": v2.get("sent")}
    for version_name, expected in shown.items():
        path = defaulted.objects(namespace, version_name)
        assert api.get(f"{path}/a").ok()["spec"] == expected
        assert api.get(path).ok()["items"][0]["spec"] == expected
        with api.watch(f"{path}?watch=true") as events:
            assert events.next()["object"]["spec"] == expected
        table = api.get(path, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}).ok()
        assert table["rows"][0]["cells"][1] == column[version_name]
        assert api.patch(f"{path}/a", {"metadata": {"labels": {"k": version_name}}}).ok()["spec"] == expected
        applied = api.apply(
            f"{path}/a?fieldManager=m&force=true",
            defaulted.body("a", version_name, metadata={"name": "a", "labels": {"l": version_name}}),
        )
        assert applied.ok()["spec"] == expected


# ---- answers that are large

# What the loop works on in most of them is the server's; in one of them it may be the machine's.
PERIODS: Final = 5


def many_texts() -> dict[str, str]:
    return {f"k{number}": "" for number in range(90_000)}


def enlarge_spec(document: dict[str, Any]) -> None:
    document["spec"] = many_texts()


def enlarge_labels(document: dict[str, Any]) -> None:
    document["metadata"]["labels"] = many_texts()


@pytest.mark.parametrize("enlarge", [enlarge_spec, enlarge_labels])
def test_large_answers_about_small_objects_hold_up_nobody(
    api: Api, webhook: ConversionWebhook, namespace: str, enlarge: Callable[[dict[str, Any]], None]
) -> None:
    """Row S02. Of reads and writes; the metadata that the webhook changes are checked, too."""

    async def enlarging(review: Review) -> Review | bytes:
        answer = answer_to(review)
        for each in answer["response"]["convertedObjects"]:
            enlarge(each)
        return answer

    spec = {"type": "object", "additionalProperties": {"type": "string"}}
    schema = {"type": "object", "properties": {"spec": spec}}
    v1, v2 = version("v1", schema=schema), version("v2", schema=schema, storage=False)
    webhook.converting = honest
    defined = define(api, definition(new_group(), v1, v2, conversion=webhook.conversion()))
    path = defined.objects(namespace, "v2")
    defined.create("a", namespace).ok()
    webhook.converting = enlarging
    turns = []
    for number in range(PERIODS):
        with longest_turn(api) as turn:
            api.get(f"{path}/a").ok()
            defined.create(f"b{number}", namespace, "v2").ok()
            api.patch(f"{path}/a", {"metadata": {"annotations": {"a": str(number)}}}).ok()
        turns.append(turn.thread_cpu_s)
    assert median(turns) <= 0.03, turns


# ---- owners in several versions


def _apply(
    defined: Defined,
    api: Api,
    at: tuple[str, str],
    manager: str,
    spec: dict[str, Any],
    *,
    force: bool = False,
) -> Answer:
    namespace, name = at
    path = f"{defined.objects(namespace, name)}/a?fieldManager={manager}{'&force=true' if force else ''}"
    return api.apply(path, defined.body("a", name, spec=spec))


def _owners(found: dict[str, Any]) -> dict[str, set[str]]:
    """The fields of the spec that each manager owns, by its name and the version."""
    return {
        f"{each['manager']} {each['apiVersion'].rpartition('/')[2]}": set(each["fieldsV1"]["f:spec"])
        for each in found["metadata"].get("managedFields", ())
        if "f:spec" in each["fieldsV1"]
    }


def test_f30_a_conflict_has_its_path_in_the_version_of_the_owner(
    defined: Defined, api: Api, namespace: str
) -> None:
    _apply(defined, api, (namespace, "v1"), "one", {"size": 5, "note": "x"}).ok()
    refused = _apply(defined, api, (namespace, "v2"), "two", {"length": "6cm", "note": "y"})
    assert refused.status == 409
    causes = refused.json["details"]["causes"]
    assert [each["field"] for each in causes] == [".spec.note", ".spec.size"]
    assert {each["message"] for each in causes} == {'conflict with "one"'}
    shared = _apply(defined, api, (namespace, "v2"), "two", {"length": "5cm"}).ok()
    assert _owners(shared) == {"one v1": {"f:size", "f:note"}, "two v2": {"f:length"}}
    taken = _apply(defined, api, (namespace, "v2"), "two", {"length": "6cm"}, force=True).ok()
    assert _owners(taken) == {"one v1": {"f:note"}, "two v2": {"f:length"}}


def test_f15_f30_what_is_given_up_stays_if_it_is_owned_in_another_version(
    defined: Defined, api: Api, namespace: str
) -> None:
    _apply(defined, api, (namespace, "v1"), "one", {"size": 5, "note": "x"}).ok()
    _apply(defined, api, (namespace, "v2"), "two", {"length": "5cm"}).ok()
    kept = _apply(defined, api, (namespace, "v1"), "one", {"note": "x"}).ok()
    assert kept["spec"] == {"size": 5, "note": "x"}
    gone = _apply(defined, api, (namespace, "v2"), "two", {}).ok()
    assert gone["spec"] == {"note": "x"}


def test_f16_f30_an_update_takes_fields_from_owners_in_other_versions(
    defined: Defined, api: Api, webhook: ConversionWebhook, namespace: str
) -> None:
    _apply(defined, api, (namespace, "v2"), "one", {"length": "5cm", "note": "x"}).ok()
    path = f"{defined.objects(namespace)}/a?fieldManager=two"
    webhook.asked.clear()
    found = api.patch(path, {"metadata": {"finalizers": ["example.com/a"]}}).ok()
    assert webhook.asked == [], "no conversion changes finalizers"
    changed = api.put(path, {**found, "spec": {**found["spec"], "size": 6}}).ok()
    assert _owners(changed) == {"one v2": {"f:note"}, "two v1": {"f:size"}}
    assert webhook.asked == [2], "the old and the new object together"
    api.patch(path, {"metadata": {"finalizers": None}}).ok()


def test_owners_survive_a_webhook_that_fails(
    defined: Defined, api: Api, webhook: ConversionWebhook, namespace: str
) -> None:
    """kube-apiserver drops them with the next update. Versions then differ in their name alone."""
    _apply(defined, api, (namespace, "v2"), "one", {"length": "5cm", "note": "x"}).ok()
    webhook.converting = _nothing
    refused = _apply(defined, api, (namespace, "v1"), "two", {"size": 6})
    assert (refused.status, refused.reason) == (503, "ServiceUnavailable")
    path = f"{defined.objects(namespace)}/a?fieldManager=two"
    changed = api.patch(path, {"spec": {"size": 6, "note": "y"}}).ok()
    assert _owners(changed) == {"one v2": {"f:length"}, "two v1": {"f:size", "f:note"}}
