"""JSONPath of columns. Source: k8s.io/client-go, util/jsonpath."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.custom_resources.serving.json_path import InvalidJsonPath, compile_path

DOCUMENT: Final[dict[str, Any]] = {
    "spec": {
        "name": "x",
        "a.b": "dotted",
        "ports": [
            {"name": "http", "port": 80},
            {"name": "https", "port": 443, "tls": True},
            {"name": "dns", "port": 53},
        ],
        "labels": {"a": "1", "b": "2"},
    },
    "status": {
        "conditions": [{"type": "Synced", "status": "False"}, {"type": "Ready", "status": "True"}],
        "nothing": None,
    },
}
PORTS: Final = DOCUMENT["spec"]["ports"]

FOUND = {
    "a field": (".spec.name", ["x"]),
    "without the dot": ("spec.name", ["x"]),
    "from the root": ("$.spec.name", ["x"]),
    "the document": (".", [DOCUMENT]),
    "more steps than Python nests generators": ("$" + "[*]" * 1300, []),
    "an absent field": (".spec.none.deeper", []),
    "a field of what is no object": (".spec.name.deeper", []),
    "null is found": (".status.nothing", [None]),
    "an escaped dot": (r".spec.a\.b", ["dotted"]),
    "a quoted field": (".spec['a.b']", ["dotted"]),
    "in double quotes": ('.spec["name"]', ["x"]),
    "an index": (".spec.ports[0].name", ["http"]),
    "an index from the end": (".spec.ports[-1].name", ["dns"]),
    "an index beyond": (".spec.ports[3]", []),
    "an index of what is no list": (".spec.labels[0]", []),
    "all items": (".spec.ports[*].port", [80, 443, 53]),
    "all values": (".spec.labels.*", ["1", "2"]),
    "a slice": (".spec.ports[1:].name", ["https", "dns"]),
    "a slice with a step": (".spec.ports[0:3:2].name", ["http", "dns"]),
    "a union": (".spec['name','none','labels'].a", ["1"]),
    "a union of indexes": (".spec.ports[0,2].name", ["http", "dns"]),
    "a filter by text": ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
    "a filter in single quotes": (".status.conditions[?(@.type=='Ready')].status", ["True"]),
    "a filter by number": (".spec.ports[?(@.port>=80)].name", ["http", "https"]),
    "a filter by truth": (".spec.ports[?(@.tls==true)].name", ["https"]),
    "a filter by presence": (".spec.ports[?(@.tls)].name", ["https"]),
    "a filter that compares kinds": ('.spec.ports[?(@.port>"a")].name', []),
    "what is not equal": ('.spec.ports[?(@.name!="http")].port', [443, 53]),
    "everywhere": ("..name", ["x", "http", "https", "dns"]),
    "everywhere below": (".status..status", ["False", "True"]),
}


@pytest.mark.parametrize(("path", "expected"), FOUND.values(), ids=FOUND)
def test_the_values_of_a_path(path: str, expected: list[Any]) -> None:
    assert list(compile_path(path)(DOCUMENT)) == expected


WRONG = (".spec[", ".spec[?(@.a", ".a[x]", ".a]", ".a..", ".[0:2:0]", ".a[?(b)]", ".a b", ".a" * 3_000)


@pytest.mark.parametrize("path", WRONG, ids=[each[:20] for each in WRONG])
def test_invalid_paths(path: str) -> None:
    with pytest.raises(InvalidJsonPath):
        compile_path(path)


DEEP: Final[Any] = [[[[[[[[[[0] * 4] * 4] * 4] * 4] * 4] * 4] * 4] * 4] * 4]
SLOW = {
    "fields": "." + ".a" * 40,
    "descents": "..*" * 40,
    "unions": "[*,*]" * 40,
    "filters after a descent": ".." + "[?(@..a)]" * 40,
    "filters in filters": "[?(@[?(@[?(@..a)])])]" * 20,
}


@pytest.mark.parametrize("path", SLOW.values(), ids=SLOW)
def test_no_path_takes_long(path: str) -> None:
    find = compile_path(path)
    began = time.process_time()
    assert len(list(find(DEEP))) < 100_000
    assert time.process_time() - began < 1.0


@given(st.text(alphabet=".[]*?()@'\"a0:,=-\\ $", max_size=40))
def test_any_text_compiles_or_is_an_invalid_path(text: str) -> None:
    try:
        find = compile_path(text)
    except InvalidJsonPath:
        return
    list(find(DOCUMENT))
