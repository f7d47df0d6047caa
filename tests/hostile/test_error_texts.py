"""What is wrong with a request is told in a bounded text, however long the names are that it has to tell.

A name of a megabyte, and a thousand errors below it, would be a gigabyte of paths.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

import psutil
import pytest

from apiserver.meta.field_errors import VALUE_LENGTH_MAX
from tests.hostile.support import longest_turn
from tests.support.api import APPLY, JSON_PATCH, MERGE_PATCH, Api
from tests.support.definitions import DEFINITIONS, define, definition, new_group, version

TURN_MAX_S: Final = 0.05
# The body itself, what is parsed of it, and the answer.
MEMORY_MAX: Final = 100 * 1024 * 1024
ANSWER_MAX: Final = 4 * 1024 * 1024
NAME: Final = "k" * 1_000_000
ERRORS: Final = 2_000
DUPLICATES: Final = "{" + ",".join(f'"a{n}":1,"a{n}":2' for n in range(ERRORS)) + "}"
REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
# Objects in a map, and a field that they must have.
ITEM: Final = {
    "type": "object",
    "required": ["r"],
    "properties": {
        "r": {"type": "string"},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
}
SCHEMA: Final = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": ITEM}}
    },
}


@contextmanager
def bounded_memory(api: Api) -> Iterator[None]:
    """Whatever happens inside does not make the server's memory grow by much."""
    process, is_done = psutil.Process(api.server.pid), threading.Event()
    before = peak = process.memory_info().rss

    def watch() -> None:
        nonlocal peak
        while not is_done.wait(0.005):
            peak = max(peak, process.memory_info().rss)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        is_done.set()
        watching.join()
    assert peak - before < MEMORY_MAX


def duplicates_below_a_name(api: Api, namespace: str) -> Any:
    body = f'{{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview","{NAME}":{DUPLICATES}}}'
    return api.post(f"{REVIEWS}?fieldValidation=Strict", body.encode())


def duplicates_below_a_name_in_yaml(api: Api, namespace: str) -> Any:
    body = (
        f'{{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview","n{NAME[:900]}":{DUPLICATES}}}'
    )
    return api.post(f"{REVIEWS}?fieldValidation=Strict", body.encode(), type="application/yaml")


def duplicates_in_the_value_of_a_long_pointer(api: Api, namespace: str) -> Any:
    body = f'[{{"op":"add","path":"/data/{NAME}","value":{DUPLICATES}}}]'
    path = f"/api/v1/namespaces/{namespace}?fieldValidation=Strict"
    return api.patch(path, body.encode(), JSON_PATCH)


def duplicates_in_a_merge_patch(api: Api, namespace: str) -> Any:
    path = f"/api/v1/namespaces/{namespace}?fieldValidation=Strict"
    return api.patch(path, f'{{"{NAME}":{DUPLICATES}}}'.encode(), MERGE_PATCH)


def a_field_manager_of_control_characters(api: Api, namespace: str) -> Any:
    path = f"/api/v1/namespaces/{namespace}/configmaps?fieldManager={quote(chr(1)) * 20_000}"
    return api.post(path, {"metadata": {"name": "a"}})


BUILT_IN: Final = {
    each.__name__.replace("_", " "): each
    for each in (
        duplicates_below_a_name,
        duplicates_below_a_name_in_yaml,
        duplicates_in_the_value_of_a_long_pointer,
        duplicates_in_a_merge_patch,
        a_field_manager_of_control_characters,
    )
}


@pytest.mark.parametrize("attack", BUILT_IN.values(), ids=BUILT_IN)
def test_errors_in_built_in_types(api: Api, namespace: str, attack: Any) -> None:
    with longest_turn(api) as turn, bounded_memory(api):
        answer = attack(api, namespace)
    assert 400 <= answer.status < 500, answer.body[:300]
    assert len(answer.body) < ANSWER_MAX
    assert turn.thread_cpu_s <= TURN_MAX_S


# What is below a long name in a custom resource, and how it is written.
CUSTOM: Final[dict[str, tuple[Any, str, str]]] = {
    "unknown fields": ({f"x{n}": {"r": "", "u": 1} for n in range(ERRORS)}, "POST", "fieldValidation=Strict"),
    "fields that are missing": ({f"x{n}": {} for n in range(ERRORS)}, "POST", ""),
    "values of the wrong type": ({"x": {"r": "", "m": {f"m{n}": "" for n in range(ERRORS)}}}, "POST", ""),
    "undeclared fields of an apply": (
        {f"x{n}": {"r": "", "u": 1} for n in range(ERRORS)},
        "PATCH",
        "fieldManager=m",
    ),
}


def test_errors_in_custom_resources(api: Api, namespace: str) -> None:
    group = new_group()
    defined = define(api, definition(group, version(schema=SCHEMA)))
    path = defined.objects(namespace)
    for below, method, query in CUSTOM.values():
        body = json.dumps(defined.body("a", spec={NAME: below})).encode()
        target, type_ = (path, "json") if method == "POST" else (f"{path}/a", APPLY)
        with longest_turn(api) as turn, bounded_memory(api):
            answer = api.send(method, f"{target}?{query}", body, type=type_)
        assert 400 <= answer.status < 500, answer.body[:300]
        assert len(answer.body) < ANSWER_MAX
        assert turn.thread_cpu_s <= TURN_MAX_S


LONG_VALUES: Final = {
    "values to choose from": {"enum": [f"{n}-{NAME[:100]}" for n in range(3_000)]},
    "a pattern": {"pattern": f"^{NAME[:30_000]}$"},
}


@pytest.mark.parametrize("rule", LONG_VALUES.values(), ids=LONG_VALUES)
def test_errors_that_tell_what_is_allowed(api: Api, namespace: str, rule: dict[str, Any]) -> None:
    items = {"type": "array", "items": {"type": "string", **rule}}
    schema = {"type": "object", "properties": {"spec": items}}
    defined = define(api, definition(new_group(), version(schema=schema)))
    body = defined.body("a", spec=[f"x{n}" for n in range(ERRORS)])
    defined.create("b", namespace, spec=[])  # compiles the schema
    with longest_turn(api) as turn, bounded_memory(api):
        answer = api.post(defined.objects(namespace), body)
    assert answer.status == 422
    assert len(answer.body) < ANSWER_MAX
    assert turn.thread_cpu_s <= TURN_MAX_S


def test_a_pattern_that_is_refused_is_told_by_its_beginning(api: Api) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": f"^{NAME[:200_000]}$"}}}
    answer = api.post(DEFINITIONS, definition(new_group(), version(schema=schema)))
    assert answer.status == 422
    assert answer.message.count("expression too large") == 1
    assert len(answer.body) < 10 * VALUE_LENGTH_MAX


def test_conflicts_below_a_long_name(api: Api, namespace: str) -> None:
    group = new_group()
    defined = define(api, definition(group, version(schema=SCHEMA)))
    path = f"{defined.objects(namespace)}/a"
    name = NAME[:300_000]
    first, second = (
        defined.body("a", spec={name: {f"x{n}": {"r": value} for n in range(ERRORS)}}) for value in "ab"
    )
    api.apply(f"{path}?fieldManager=m", first).ok()
    with longest_turn(api) as turn, bounded_memory(api):
        answer = api.apply(f"{path}?fieldManager=n", second)
    assert answer.status == 409
    assert len(answer.body) < ANSWER_MAX
    assert turn.thread_cpu_s <= TURN_MAX_S
