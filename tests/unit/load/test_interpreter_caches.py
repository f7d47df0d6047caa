"""Strings of documents that are gone are not kept by the caches of orjson, of the interpreter, or ours."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import orjson

from apiserver.load.interpreter_caches import JsonKeys, forget_attribute_names
from apiserver.load.text_caches import empty_text_caches, text_cache


def references(texts: Sequence[str]) -> list[int]:
    return [sys.getrefcount(text) for text in texts]


def kept(texts: Sequence[str]) -> int:
    """Returns how many of these texts somebody else refers to."""
    nobodys = references([f"nobody has {number}" for number in range(len(texts))])
    return sum(count > nobody for count, nobody in zip(references(texts), nobodys, strict=True))


def test_the_keys_of_a_document_are_forgotten() -> None:
    keys = list(orjson.loads(orjson.dumps({f"key {number}": 0 for number in range(2_000)})))
    before = kept(keys)
    assert before > 1_000
    json_keys = JsonKeys()
    json_keys.forget()
    assert kept(keys) < before / 20
    json_keys.forget()
    assert kept(keys) < before / 200


def test_names_of_attributes_are_forgotten() -> None:
    class Document:
        kind = "ConfigMap"

    # As functions written in C ask: by a name that is made for it.
    names = ["".join(["ki", "nd"])]
    assert getattr(Document(), names[0]) == "ConfigMap"
    forget_attribute_names()
    assert kept(names) == 0


def test_text_caches_are_emptied() -> None:
    worked_out = []

    @text_cache(100)
    def length(text: str) -> int:
        worked_out.append(text)
        return len(text)

    assert [length("a"), length("bb"), length("a")] == [1, 2, 1]
    empty_text_caches()
    assert length("a") == 1
    assert worked_out == ["a", "bb", "a"]
