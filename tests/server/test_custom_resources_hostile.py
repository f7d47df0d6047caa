"""Hostile definitions and custom resources: races, lies, sizes. Rows E03, E05, E14, E15, I13, S02, D10.

Nothing here may end in an error of the server's own; whoever is not concerned is not kept waiting.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.support.api import Answer, Api, until_status
from tests.support.bystander import Bystander
from tests.support.conversion_webhook import ConversionWebhook, answer_to, honest
from tests.support.definitions import DEFINITIONS, Defined, condition, define, definition, new_group, version
from tests.support.eventually import WITHIN_S, until
from tests.support.server_process import ServerProcess
from tests.support.webhook_server import Review

TABLE: Final = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
KEEPS_UNKNOWN: Final = {"x-kubernetes-preserve-unknown-fields": True}
RACE_S: Final = 2.0
# A definition is there for less than a tenth of a second at a time.


def schema(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": spec}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server for these tests alone; at the end its log must hold no traceback."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as server:
        yield server
        assert "Traceback" not in server.stderr, server.stderr[-5_000:]


def _is_gone(api: Api, path: str) -> None:
    until_status(404, lambda: api.get(path), f"{path} is gone")


# ---- all schemas, all objects

TEXTS: Final = st.sampled_from(["", "a", "ab", "abcdef", "2024-02-29", "10.0.0.1", "é"])
NUMBERS: Final = st.sampled_from([0, 1, -1, 2, 0.5, 2.0, 1e300, 1 << 40, 10**19])
ANYTHING: Final = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "kind", "metadata", ""]), inner, max_size=3)
    ),
    max_leaves=5,
)
NAMES: Final = st.sampled_from(["a", "b", "c", "items", "self", "__proto__", "x-y", "é"])
Sample = tuple[dict[str, Any], st.SearchStrategy[Any]]


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def scalars(draw: st.DrawFn) -> Sample:
    """A schema, and values for it."""
    kind, fine, constraints = draw(
        st.sampled_from(
            [
                (
                    {"type": "string"},
                    TEXTS,
                    some(
                        maxLength=st.integers(0, 4),
                        pattern=st.sampled_from(["^a", "b$"]),
                        format=st.sampled_from(["date", "ipv4", "uuid", "nobody-knows"]),
                        enum=st.just(["a", "ab"]),
                    ),
                ),
                (
                    {"type": "integer"},
                    st.integers(-3, 3),
                    some(
                        minimum=st.integers(-2, 2),
                        multipleOf=st.sampled_from([2, 0.5]),
                        format=st.sampled_from(["int32", "int64"]),
                    ),
                ),
                ({"type": "number"}, NUMBERS, some(maximum=NUMBERS)),
                ({"type": "boolean"}, st.booleans(), st.just({})),
                ({"x-kubernetes-int-or-string": True}, st.sampled_from([1, "50%"]), st.just({})),
                (KEEPS_UNKNOWN, ANYTHING, st.just({})),
            ]
        )
    )
    return {**kind, **draw(constraints)}, fine


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Sample]) -> Sample:
    fields = draw(st.dictionaries(NAMES, inner, max_size=3))
    if draw(st.integers(0, 4)) == 0:
        [(below, value)] = draw(st.tuples(inner))
        return {"type": "object", "additionalProperties": below}, st.dictionaries(NAMES, value, max_size=3)
    own: dict[str, Any] = {
        "type": "object",
        "properties": {name: below for name, (below, _) in fields.items()},
        **draw(st.sampled_from([{}, {}, KEEPS_UNKNOWN, {"x-kubernetes-map-type": "atomic"}])),
    }
    known = {name: value | ANYTHING for name, (_, value) in fields.items()}
    return own, st.fixed_dictionaries({}, optional={**known, "unknown": ANYTHING})


@st.composite
def lists(draw: st.DrawFn, inner: st.SearchStrategy[Sample]) -> Sample:
    below, value = draw(inner)
    own: dict[str, Any] = {"type": "array", "items": below}
    if draw(st.booleans()) and below.get("type") in ("string", "integer"):
        own["x-kubernetes-list-type"] = "set"
    elif below.get("type") == "object" and "properties" in below:
        keys = [n for n, each in below["properties"].items() if each.get("type") in ("string", "integer")]
        if keys:
            below["required"] = keys[:1]
            own |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys[:1]}
    return own, st.lists(value, max_size=3)


@st.composite
def optional(draw: st.DrawFn, inner: st.SearchStrategy[Sample]) -> Sample:
    """With a default, or nullable."""
    own, value = draw(inner)
    if draw(st.booleans()):
        return {**own, "nullable": True}, value | st.none()
    return {**own, "default": draw(value)}, value


SAMPLES: Final = objects(
    st.recursive(
        scalars(), lambda inner: objects(inner) | lists(inner) | optional(inner | scalars()), max_leaves=6
    )
)


@st.composite
def samples(draw: st.DrawFn) -> tuple[dict[str, Any], list[Any]]:
    """The schema of a `spec`, and some that may or may not be right."""
    own, value = draw(SAMPLES)
    return own, draw(st.lists(value | ANYTHING, min_size=2, max_size=4))


def _unowned(answer: Answer) -> dict[str, Any]:
    document: dict[str, Any] = answer.ok()
    return {**document, "metadata": {**document["metadata"], "managedFields": None, "resourceVersion": None}}


def _every_way_leads_to_the_same(api: Api, own: dict[str, Any], specs: list[Any]) -> None:
    """An object that was accepted stays as it is when it is read, put back and applied again."""
    group = new_group()
    answer = api.post(DEFINITIONS, definition(group, version(schema=schema(own))))
    assert answer.status in (201, 400, 422), answer.body
    assume(answer.status == 201)
    name = answer.json["metadata"]["name"]
    defined = Defined(api, group, name, "Widget")
    until_status(200, lambda: api.get(defined.objects()))
    try:
        for index, spec in enumerate(specs):
            path, applied = f"{defined.objects()}/o{index}", f"{defined.objects()}/a{index}"
            created = defined.create(f"o{index}", spec=spec)
            by_apply = api.apply(f"{applied}?fieldManager=m", defined.body(f"a{index}", spec=spec))
            assert created.status in (201, 400, 422), (spec, created.body)
            assert by_apply.status in (201, 400, 422), (spec, by_apply.body)
            # What is of no known type cannot be applied, whatever validation says of it.
            assert by_apply.status != 201 or created.status == 201, (spec, created.body)
            if created.status != 201:
                continue
            if by_apply.status == 201:
                assert by_apply.json.get("spec") == created.json.get("spec")
            assert api.get(path).ok() == created.json
            # Nothing is pruned, completed or rewritten a second time: it is the same write.
            assert api.put(f"{path}?fieldValidation=Strict", created.json).ok() == created.json
            yaml = api.get(path, headers={"Accept": "application/yaml"}).body
            assert api.put(path, yaml, type="application/yaml").ok() == created.json
            shown = {field: value for field, value in created.json.items() if field != "metadata"}
            body = {**shown, "metadata": {"name": f"o{index}"}}
            again = api.apply(f"{path}?fieldManager=m&force=true", body)
            if again.status == 200:
                assert _unowned(again) == _unowned(created)
                assert api.apply(f"{path}?fieldManager=m&force=true", body).ok() == again.json
            for other in specs:
                assert api.patch(path, {"spec": other}).status in (200, 400, 422)
    finally:
        api.delete(defined.path).ok()


@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(samples())
def test_all_schemas_and_all_objects(api: Api, sample: tuple[dict[str, Any], list[Any]]) -> None:
    _every_way_leads_to_the_same(api, *sample)


@pytest.mark.slow
@pytest.mark.longest
@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(samples())
def test_all_schemas_and_all_objects_at_length(api: Api, sample: tuple[dict[str, Any], list[Any]]) -> None:
    _every_way_leads_to_the_same(api, *sample)


def nested(levels: int, opening: bytes = b'{"a":', closing: bytes = b"}") -> bytes:
    return opening * levels + b"1" + closing * levels


# The text of a `spec` -> the status of the answer.
HOSTILE: Final = {
    "as deep as can be": (nested(240), 201),
    "too deep to be stored": (nested(400), 400),
    "deep beyond reason": (nested(100_000), 400),
    "lists deep beyond reason": (nested(100_000, b"[", b"]"), 400),
    "a number without end": (b"9" * 5_000, 400),
    "a number of 30 digits": (b'{"any":1' + b"0" * 30 + b"}", 201),
    "infinite": (b'{"any":1e999}', 400),
    "not a number": (b'{"any":NaN}', 400),
    "a field twice": (b'{"any":1,"any":2}', 400),
    "a field twice, deep down": (b'{"any":{"b":[{"c":1,"c":2}]}}', 400),
    "half a character": (b'{"any":"\\ud800"}', 400),
    "bytes that are no text": (b'{"any":"\xff"}', 400),
    "names that mean something elsewhere": (
        b'{"any":{"__proto__":1,"__class__":2,"":3,"\\u0000":4,".":5,"a.b":6,"$ref":7}}',
        201,
    ),
    "no list where a set belongs": (b'{"set":5}', 422),
    "truth where a list with keys belongs": (b'{"map":true}', 422),
    "no objects in a list with keys": (b'{"map":[1,[2],"3",null]}', 422),
    "a resource that is none": (b'{"resource":5}', 422),
    "a resource whose metadata is a list": (b'{"resource":{"metadata":[]}}', 400),
    "a list of more than fits": (b'{"set":[' + b",".join(b"%d" % n for n in range(300_000)) + b"]}", 413),
}


@pytest.fixture(scope="module")
def open_minded(server: ServerProcess) -> Iterator[Defined]:
    """A type that accepts anything, and has columns of every type."""
    api = Api(server)
    fields = {
        "any": KEEPS_UNKNOWN,
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        "map": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
        },
        "resource": {"type": "object", "x-kubernetes-embedded-resource": True, **KEEPS_UNKNOWN},
    }
    columns = [
        {"name": kind, "type": kind, "jsonPath": ".spec.any"}
        for kind in ("integer", "number", "string", "boolean", "date")
    ]
    columns.append({"name": "anywhere", "type": "string", "jsonPath": "..a"})
    spec = {"type": "object", "properties": fields, **KEEPS_UNKNOWN}
    yield define(api, definition(new_group(), version(schema=schema(spec), additionalPrinterColumns=columns)))
    api.close()


@pytest.mark.parametrize(("spec", "status"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_objects(spec: bytes, status: int, open_minded: Defined, api: Api, namespace: str) -> None:
    body = b'{"apiVersion":"%b/v1","kind":"Widget","metadata":{"name":"a"},"spec":%b}'
    path = open_minded.objects(namespace)
    answer = api.post(f"{path}?fieldValidation=Strict", body % (open_minded.group.encode(), spec))
    assert answer.status == status, answer.body[:500]
    for accept in (*TABLE.values(), "application/yaml", "application/json"):
        assert api.get(path, headers={"Accept": accept}).status == 200


def test_numbers_that_no_column_can_hold(open_minded: Defined, api: Api, namespace: str) -> None:
    """One of them must not keep all others of a list from being shown."""
    for name, value in (("a", 1e30), ("b", 10**25), ("c", (1 << 64) - 1), ("d", 7)):
        open_minded.create(name, namespace, spec={"any": value}).ok()
    rows = api.get(open_minded.objects(namespace), headers=TABLE).ok()["rows"]
    assert [row["cells"][1] for row in rows] == [None, None, None, 7]


def test_whole_numbers_have_no_point_wherever_they_stand(
    open_minded: Defined, api: Api, namespace: str
) -> None:
    """As Go writes them: so a client that sends the same again changes nothing."""
    open_minded.create("a", namespace, spec={"any": [{"x": 2.0}], "unknown": 3.0}).ok()
    body = api.get(f"{open_minded.objects(namespace)}/a").body
    assert b'"any":[{"x":2}]' in body
    assert b'"unknown":3}' in body


# ---- races


def _use(api: Api, group: str, choice: random.Random) -> tuple[str, Answer]:
    """Send a random request about the widgets of a group."""
    group_version, kind = f"{group}/{choice.choice(['v1', 'v1', 'v2'])}", choice.choice(["Widget", "Gadget"])
    path = f"/apis/{group_version}/" + choice.choice(["widgets", "namespaces/default/widgets"])
    name = f"o{choice.randrange(5)}"
    one = f"{path}/{name}"
    body = {
        "apiVersion": group_version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"a": choice.choice(["x", 1])},
    }
    verbs: dict[str, Callable[[], Answer]] = {
        "create": lambda: api.post(path, body),
        "get": lambda: api.get(one),
        "list": lambda: api.get(path, headers=choice.choice([{}, TABLE])),
        "put": lambda: api.put(one, body),
        "apply": lambda: api.apply(f"{one}?fieldManager=m&force=true", body),
        "status": lambda: api.patch(f"{one}/status", {"status": {"a": 1}}),
        "delete": lambda: api.delete(one),
        "clear": lambda: api.delete(path),
        "discovery": lambda: api.get(f"/apis/{group_version}"),
        "schema": lambda: api.get(f"/openapi/v3/apis/{group_version}"),
    }
    verb = choice.choice(list(verbs))
    return verb, verbs[verb]()


def test_definitions_that_come_and_go_while_others_use_them(server: ServerProcess) -> None:
    """Every other time with another schema, scope, kind or version; nobody sees anything but 2xx and 4xx."""
    group, began = new_group(), time.monotonic()
    text, number = ({"type": "object", "properties": {"a": {"type": kind}}} for kind in ("string", "integer"))
    variants = [
        definition(group, version(schema=schema(text))),
        definition(group, version(schema=schema(number), subresources={"status": {}})),
        definition(group, version(schema=schema(text)), scope="Cluster"),
        definition(group, version(schema=schema(text)), kind="Gadget"),
        definition(group, version("v2", schema=schema(text))),
    ]
    name = f"widgets.{group}"
    found: Counter[tuple[str, int]] = Counter()

    def is_over() -> bool:
        """Once somebody has created an object and somebody has seen one, however busy the machine is."""
        passed_s = time.monotonic() - began
        has_met = found["create", 201] and found["event", 200]
        return passed_s > WITHIN_S or (passed_s > RACE_S and bool(has_met))

    def definer() -> None:
        api, choice = Api(server), random.Random(0)
        while not is_over():
            api.post(DEFINITIONS, choice.choice(variants)).ok()
            time.sleep(choice.random() / 10)
            api.delete(f"{DEFINITIONS}/{name}").ok()
            _is_gone(api, f"{DEFINITIONS}/{name}")
        api.close()

    def user(seed: int) -> None:
        api, choice = Api(server), random.Random(seed)
        while not is_over():
            what, answer = _use(api, group, choice)
            found[what, answer.status] += 1
        api.close()

    def watcher() -> None:
        api = Api(server)
        while not is_over():
            with api.watch(f"/apis/{group}/v1/widgets?watch=true&timeoutSeconds=3") as stream:
                if stream.status == 200:
                    found.update(("event", 500 if each["type"] == "ERROR" else 200) for each in stream)
        api.close()

    with ThreadPoolExecutor() as threads:
        work = [threads.submit(definer), threads.submit(watcher)]
        work += [threads.submit(user, seed) for seed in range(3)]
    for each in work:
        each.result()
    unwanted = {key: count for key, count in found.items() if key[1] >= 500}
    assert not unwanted, unwanted
    assert found["create", 201]
    assert found["event", 200]
    api = Api(server)
    _is_gone(api, f"{DEFINITIONS}/{name}")
    api.close()


def test_conflicting_names_go_to_one_definition_after_the_other(api: Api) -> None:
    group = new_group()
    wanted = [definition(group, plural=f"p{n}s", kind="Same", names={"singular": f"p{n}"}) for n in range(6)]
    for each in wanted:
        api.post(DEFINITIONS, each).ok()
    left = {each["metadata"]["name"] for each in wanted}

    def established() -> list[str]:
        items = api.get(DEFINITIONS).ok()["items"]
        ours = [each for each in items if each["spec"]["group"] == group]
        return [
            each["metadata"]["name"]
            for each in ours
            if condition(each, "Established").get("status") == "True"
            and not each["metadata"].get("deletionTimestamp")
        ]

    while left:
        until(lambda: api.get(DEFINITIONS), lambda _: len(established()) == 1, "one of them is established")
        [owner] = established()
        assert owner in left
        left.remove(owner)
        api.delete(f"{DEFINITIONS}/{owner}").ok()


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
def test_definitions_are_deleted_whatever_the_propagation_policy(policy: str, api: Api) -> None:
    """A definition has none: Kubernetes' deletes it without looking at the policy."""
    defined = define(api, definition(new_group()))
    defined.create("a").ok()
    api.delete(f"{defined.path}?propagationPolicy={policy}").ok()
    _is_gone(api, defined.path)


def test_a_deletion_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server, Api(server) as api:
        defined = define(api, definition(new_group()))
        for index in range(300):
            defined.create(f"o{index}").ok()
        held = defined.body("held")
        held["metadata"]["finalizers"] = ["example.com/held"]
        api.post(defined.objects(), held).ok()
        api.delete(defined.path).ok()
        server.kill()
        server.start()
        api = Api(server)
        until(lambda: api.get(defined.objects()), lambda answer: len(answer.json["items"]) == 1)
        api.patch(f"{defined.objects()}/held", {"metadata": {"finalizers": None}}).ok()
        _is_gone(api, defined.path)
        api.post(DEFINITIONS, definition(defined.group)).ok()
        until_status(200, lambda: api.get(defined.objects()))
        assert api.get(defined.objects()).ok()["items"] == []
        api.close()


# ---- webhooks


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[ConversionWebhook]:
    with ConversionWebhook(tmp_path) as webhook:
        yield webhook


def _converted_by(webhook: ConversionWebhook, api: Api) -> Defined:
    spec = schema({"type": "object", **KEEPS_UNKNOWN})
    versions = version(schema=spec), version("v2", schema=spec, storage=False)
    return define(api, definition(new_group(), *versions, conversion=webhook.conversion()))


def test_a_webhook_that_answers_what_is_too_deep(
    webhook: ConversionWebhook, api: Api, namespace: str
) -> None:
    defined = _converted_by(webhook, api)
    defined.create("a", namespace, spec={"size": 1}).ok()

    async def deep(review: Review) -> Review | bytes:
        answer: Review = answer_to(review)
        for each in answer["response"]["convertedObjects"]:
            each["spec"] = {}
        return orjson.dumps(answer).replace(b'"spec":{}', b'"spec":{"a":' + nested(500, b"[", b"]") + b"}")

    webhook.converting = deep
    path = defined.objects(namespace, "v2")
    for answer in (
        api.get(f"{path}/a"),
        api.get(path),
        api.patch(f"{path}/a", {"spec": {"length": "2cm"}}),
        api.delete(f"{path}/a"),
    ):
        assert answer.status == 503, answer.body
        assert "nested too deeply" in answer.message
    webhook.converting = honest
    assert api.get(f"{path}/a").ok()["spec"] == {"length": "1cm"}


def test_a_webhook_that_fails_at_the_beginning_of_a_watch_ends_it_with_an_error(
    webhook: ConversionWebhook, api: Api, namespace: str
) -> None:
    defined = _converted_by(webhook, api)
    defined.create("a", namespace, spec={"size": 1}).ok()

    async def nothing(review: Review) -> Review | bytes:
        return b""

    webhook.converting = nothing
    with api.watch(f"{defined.objects(namespace, 'v2')}?watch=true&resourceVersion=0") as stream:
        event = stream.next()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 503)
        assert stream.body() == b""


def test_a_webhook_that_never_answers_takes_no_connections_from_others(
    webhook: ConversionWebhook, api: Api, namespace: str, server: ServerProcess, tmp_path: Path
) -> None:
    stuck = _converted_by(webhook, api)
    for index in range(120):
        stuck.create(f"o{index}", namespace, spec={"size": 1}).ok()
    is_asked, may_go_on = threading.Event(), threading.Event()

    async def waits(review: Review) -> Review | bytes:
        if len(webhook.asked) >= 100:
            is_asked.set()
        await asyncio.to_thread(may_go_on.wait)
        return answer_to(review)

    webhook.converting = waits

    def ask(index: int) -> int:
        with Api(server) as own:
            return own.get(f"{stuck.objects(namespace, 'v2')}/o{index}").status

    with ConversionWebhook(tmp_path / "other") as other, ThreadPoolExecutor(120) as threads:
        quick = _converted_by(other, api)
        quick.create("a", namespace, spec={"size": 1}).ok()
        waiting = [threads.submit(ask, index) for index in range(120)]
        try:
            assert is_asked.wait(WITHIN_S)
            assert api.get(f"{quick.objects(namespace, 'v2')}/a").ok()["spec"] == {"length": "1cm"}
            assert not any(each.done() for each in waiting), "it had to wait for none of them"
        finally:
            may_go_on.set()
        assert {each.result() for each in waiting} == {200}


# ---- sizes


def test_a_definition_of_a_thousand_versions(server: ServerProcess, api: Api, namespace: str) -> None:
    """The first write of a type costs what its own version costs."""
    versions = [version(f"v{number}", storage=number == 1) for number in range(1, 1_001)]
    defined = define(api, definition(new_group(), *versions))
    with Bystander(server) as bystander:
        defined.create("a", namespace).ok()
    assert bystander.waited_s < 0.5
    assert api.get(f"{defined.objects(namespace, 'v999')}/a").ok()["apiVersion"].endswith("/v999")
    api.delete(defined.path).ok()
    _is_gone(api, defined.path)


@pytest.mark.slow
def test_large_objects_whose_schema_has_changed(server: ServerProcess, api: Api, namespace: str) -> None:
    """Rows E14, E15: they are looked at again one by one; others have their turns between two of them."""

    def schema_with(**more: Any) -> dict[str, Any]:
        item = {"type": "object", "properties": {"a": {"type": "string"}, **more}}
        return schema({"type": "object", "properties": {"l": {"type": "array", "items": item}}})

    defined = define(api, definition(new_group(), version(schema=schema_with())))
    for index in range(32):
        defined.create(f"o{index}", namespace, spec={"l": [{"a": "x" * 20}] * 10_000}).ok()
    changed = version(schema=schema_with(b={"type": "integer", "default": 1}))
    defined.change([{"op": "replace", "path": "/spec/versions", "value": [changed]}])
    path = f"{defined.objects(namespace)}?limit=1"
    until(lambda: api.get(path), lambda answer: b'"b":1' in answer.body)
    with Bystander(server) as bystander:
        api.get(defined.objects(namespace)).ok()
    assert bystander.waited_s < 0.3
