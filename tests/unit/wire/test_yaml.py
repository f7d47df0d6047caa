"""Documents in YAML: decoding, errors, and decoding of what was encoded. Rows D02, E04.

Source: sigs.k8s.io/yaml, and goyaml.v2's resolve.go.
"""

from __future__ import annotations

import time
from typing import Any, Final

import pytest
import yaml as pyyaml
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.wire.yaml import DEPTH_MAX, VALUES_MAX, InvalidYaml, dump, load

MEANINGS: Final[dict[str, Any]] = {
    "text": "text",
    "'1'": "1",
    '"true"': "true",
    "|-\n  1": "1",
    "1": 1,
    "-7": -7,
    "+7": 7,
    "1_000": 1000,
    # Larger than any number is: Go's reader takes them for text.
    "9" * 399: "9" * 399,
    "-0x" + "f" * 390: "-0x" + "f" * 390,
    "0b" + "1" * 390: float(2**390 - 1),
    "1e999": "1e999",
    "9" * 300: 1e300,
    "017": 15,
    "0o17": 15,
    "0x1F": 31,
    "-0b11": -3,
    "08": 8,
    "1.5": 1.5,
    ".5": 0.5,
    "1.0": 1,
    "1e3": 1000,
    "1e-2": 0.01,
    "18446744073709551615": 2**64 - 1,
    "18446744073709551616": 2.0**64,
    "yes": True,
    "On": True,
    "y": True,
    "NO": False,
    "off": False,
    "yEs": "yEs",
    "~": None,
    "": None,
    "Null": None,
    "2024-01-01": "2024-01-01",
    "2024-01-01T00:00:00Z": "2024-01-01T00:00:00Z",
    "12:30:45": "12:30:45",
    "1.2.3": "1.2.3",
    "10.0.0.1": "10.0.0.1",
    "100m": "100m",
    "!!str 1": "1",
    '!!int "1"': 1,
    "! 1": "1",
    "[1, 'a', {b: c}]": [1, "a", {"b": "c"}],
    '{"k": "v", "l": [1.5e3, null, false]}': {"k": "v", "l": [1500, None, False]},
    "\n  - 1\n  - - 2": [1, [2]],
}


@pytest.mark.parametrize(("text", "value"), MEANINGS.items(), ids=map(repr, MEANINGS))
def test_values_are_decoded(text: str, value: Any) -> None:
    (found,) = load(f"k: {text}\n".encode())[0].values()
    assert found == value
    assert type(found) is type(value)


KEYS: Final = {"1": "1", "yes": "true", "off": "false", "1.5": "1.5", "0x10": "16", "'~'": "~", "a b": "a b"}


@pytest.mark.parametrize(("key", "name"), KEYS.items(), ids=KEYS)
def test_keys_are_text(key: str, name: str) -> None:
    assert load(f"{key}: v".encode())[0] == {name: "v"}


DOCUMENTS: Final[dict[str, tuple[str, Any]]] = {
    "nothing": ("", None),
    "a comment": ("# nothing\n", None),
    "with marks around it": ("---\na: 1\n...\n", {"a": 1}),
    "after a byte order mark": ("\ufeffa: 1", {"a": 1}),
    "an alias stands for what it names": ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
    "and for text": ("a: &x t\nb: *x", {"a": "t", "b": "t"}),
    "an anchor that is given anew": ("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
    "a merge brings in what is missing": (
        "base: &b {p: 1, q: 2}\nuse: {<<: *b, q: 3}",
        {"base": {"p": 1, "q": 2}, "use": {"q": 3, "p": 1}},
    ),
    "of several the first": ("{<<: [{p: 1}, {p: 2, q: 3}]}", {"p": 1, "q": 3}),
    "the first of several": ("a: 1\n---\nb: 2\n---\n[", {"a": 1}),
    "the first of several is empty": ("---\n---\nb: 2", None),
    "an anchor of the second does not count": ("a: &x 1\n---\nb: *y", {"a": 1}),
    "a quoted `<<` is a key like any other": ('{"<<": {p: 1}, q: 2}', {"<<": {"p": 1}, "q": 2}),
}


@pytest.mark.parametrize(("text", "document"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_documents(text: str, document: Any) -> None:
    assert load(text.encode()) == (document, [])


def test_an_alias_is_a_copy() -> None:
    """A walk that completes one place must not change another."""
    document, _ = load(b"a: &x {l: []}\nb: *x")
    document["a"]["l"].append(1)
    assert document["b"] == {"l": []}


DUPLICATES: Final[dict[str, tuple[str, Any, list[str]]]] = {
    "the last counts": ("a: 1\nb: 2\na: 3", {"a": 3, "b": 2}, ['line 3: key "a" already set in map']),
    "each is told": (
        "a: 1\na: 2\na: 3",
        {"a": 3},
        ['line 2: key "a" already set in map', 'line 3: key "a" already set in map'],
    ),
    "below": ("s:\n  - k: 1\n    k: 2", {"s": [{"k": 2}]}, ['line 3: key "k" already set in map']),
    "two spellings of one key": ("yes: 1\ntrue: 2", {"true": 2}, ["line 2: key true already set in map"]),
    "in another object it is another": ("a: {k: 1}\nb: {k: 2}", {"a": {"k": 1}, "b": {"k": 2}}, []),
}


@pytest.mark.parametrize(("text", "document", "told"), DUPLICATES.values(), ids=DUPLICATES)
def test_keys_that_are_there_twice(text: str, document: Any, told: list[str]) -> None:
    """Row E04."""
    assert load(text.encode()) == (document, told)


BOMB: Final = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
BAD: Final = {
    "a list without an end": ("a: [", "did not find expected node content"),
    "a tab": ("\ta: 1", "cannot start any token"),
    "two values": ("a: b: c", "mapping values are not allowed"),
    "a number that is none": ("a: .nan", "unsupported value: .nan"),
    "a number without an end": ("a: -.inf", "unsupported value: -.inf"),
    "a type of Python's": ("a: !!python/object/apply:os.system [x]", "cannot decode tag:yaml.org"),
    "a type of one's own": ("a: !mine {b: 1}", "cannot decode !mine"),
    "binary data": ("a: !!binary aGk=", "cannot decode tag:yaml.org"),
    "a list as a key": ("[1]: 2", "cannot be a key"),
    "an object as a key": ("? {a: 1}\n: 2", "cannot be a key"),
    "nothing as a key": ("~: 2", "must not be null"),
    "an alias of nothing": ("a: *x", "unknown anchor 'x'"),
    "an alias of itself": ("a: &x [*x]", "unknown anchor 'x'"),
    "aliases that multiply": (BOMB, f"more than {VALUES_MAX} values"),
    "lists without an end to their depth": ("[" * 100_000, f"more than {DEPTH_MAX} deep"),
    "objects likewise": ("{a: " * 100_000, f"more than {DEPTH_MAX} deep"),
    "so many values": ("[" + "1," * (VALUES_MAX + 1) + "]", f"more than {VALUES_MAX} values"),
    "a merge with text": ("<<: 3", "map merge requires map"),
    "a control character": ("a: \x00", "yaml: "),
}


@pytest.mark.parametrize(("text", "told"), BAD.values(), ids=BAD)
def test_invalid_documents_are_refused(text: str, told: str) -> None:
    began = time.process_time()
    with pytest.raises(InvalidYaml, match=r"^yaml: ") as raised:
        load(text.encode())
    assert told in str(raised.value)
    assert time.process_time() - began < 5, "no more work than the text is worth"


@pytest.mark.parametrize(
    "text", ["a: *" + "x" * 100_000, "a: !<" + "x" * 100_000 + "> b"], ids=["an alias", "a tag"]
)
def test_an_error_does_not_contain_the_whole_text(text: str) -> None:
    with pytest.raises(InvalidYaml) as raised:
        load(text.encode())
    assert len(str(raised.value)) < 2_000


def test_an_error_tells_its_line() -> None:
    with pytest.raises(InvalidYaml, match=r"^yaml: line 3: cannot decode !x"):
        load(b"a: 1\nb:\n  c: !x 1")


_SCALARS: Final = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(
        [*MEANINGS, "<<", "=", "a\nb\n", "a\n\n", "\n", " x", "x ", "# c", "a: b", "\x85", "\ufeff"]
    )
)
_NAMES: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    list(MEANINGS)
)
_DOCUMENTS: Final = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=15,
)


@settings(max_examples=300)
@given(_DOCUMENTS)
def test_encoded_documents_are_decoded_as_the_same(document: Any) -> None:
    """Also by readers that have rules of their own about what needs quotes."""
    written = dump(document)
    assert load(written) == (document, [])
    assert pyyaml.safe_load(written) == document


@settings(max_examples=300)
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_anything_is_refused_or_a_document(body: bytes) -> None:
    try:
        document, _ = load(body)
    except InvalidYaml:
        return
    assert load(dump(document))[0] == document


def test_keys_are_sorted_and_long_strings_are_blocks() -> None:
    """As kube-apiserver writes them."""
    document = {
        "kind": "K",
        "apiVersion": "v1",
        "data": {"f": "a\nb\n", "e": [], "n": None},
        "l": [{"x": "1"}],
    }
    assert dump(document).decode() == (
        'apiVersion: v1\ndata:\n  e: []\n  f: |\n    a\n    b\n  "n": null\nkind: K\nl:\n- x: "1"\n'
    )
