"""The token between two chunks of a list: what it holds, and that tokens made up by clients are refused.

Row J11; the form and the messages are those of k8s.io/apiserver, pkg/storage/continue.go.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.storage.continue_token import TOKEN_LENGTH_MAX, ContinueToken, InvalidToken, decode_token
from apiserver.storage.keys import prefix_range
from apiserver.storage.resource_version import REVISION_MAX

V1: Final = "meta.k8s.io/v1"
# The segments of keys: a namespace, if any, and a name.
_NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1, max_size=150)
STARTS = st.lists(_NAMES.filter(lambda name: name not in (".", "..")), min_size=1, max_size=2).map("/".join)
REVISIONS = st.integers(0, REVISION_MAX)


def raw_token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def token(document: Any) -> str:
    """A token as a client could make it up."""
    return raw_token(json.dumps(document))


def contents(text: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def test_a_token_is_that_of_kubernetes() -> None:
    """A client may go from kube-apiserver to this server in the middle of a list, and back."""
    text = ContinueToken(42, "default/a\0").encode(V1)
    assert contents(text) == {"v": V1, "rv": 42, "start": "default/a\0"}
    assert decode_token("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Nywic3RhcnQiOiJhIn0", V1) == (7, "a")


def test_the_most_recent_state_is_minus_one_on_the_wire() -> None:
    text = ContinueToken(0, "a").encode(V1)
    assert contents(text)["rv"] == -1
    assert decode_token(text, V1) == ContinueToken(0, "a")


@pytest.mark.parametrize("revision", [-1, -2, -(2**31), -(2**63)])
def test_a_revision_below_zero_is_the_most_recent_state(revision: int) -> None:
    assert decode_token(token(GOOD | {"rv": revision}), V1) == (0, "a")


def test_the_largest_revision_is_taken() -> None:
    assert decode_token(token(GOOD | {"rv": REVISION_MAX}), V1) == (REVISION_MAX, "a")
    assert REVISION_MAX == 2**63 - 1


@given(REVISIONS, STARTS)
def test_every_token_is_read_back(revision: int, start: str) -> None:
    text = ContinueToken(revision, start).encode(V1)
    assert decode_token(text, V1) == (revision, start)
    assert text.isascii()
    assert text.replace("-", "").replace("_", "").isalnum(), "it must fit into a URL as it is"


GOOD: Final = {"v": V1, "rv": 7, "start": "a"}
REFUSED = {
    "an empty text": ("", ""),
    "not base64": ("a!b", "illegal base64 data at input byte 1"),
    "padding": (token(GOOD) + "=", "illegal base64 data"),
    "the other alphabet of base64": ("a+b/", "illegal base64 data at input byte 1"),
    "letters outside ASCII": ("é", "illegal base64 data at input byte 0"),
    "a length that base64 never has": ("AAAAA", "illegal base64 data at input byte 4"),
    "not JSON": ("AAAA", "expected a JSON value"),
    "a list": (token([]), "cannot unmarshal array into Go value of type storage.continueToken"),
    "a text": (token("a"), "cannot unmarshal string into Go value of type storage.continueToken"),
    "null": (token(None), "server does not recognize this encoded version"),
    "an empty object": (token({}), "server does not recognize this encoded version"),
    "another version": (
        token(GOOD | {"v": "meta.k8s.io/v2"}),
        "server does not recognize this encoded version meta.k8s.io/v2",
    ),
    "a version that is not a string": (
        token(GOOD | {"v": 1}),
        "cannot unmarshal number into Go struct field continueToken.v of type string",
    ),
    "no revision": (token({"v": V1, "start": "a"}), "incorrect encoded start resourceVersion"),
    "revision zero": (token(GOOD | {"rv": 0}), "incorrect encoded start resourceVersion"),
    "a revision that is a fraction": (
        token(GOOD | {"rv": 1.5}),
        "cannot unmarshal number 1.5 into Go struct field continueToken.rv of type int64",
    ),
    "a revision that is a string": (
        token(GOOD | {"rv": "7"}),
        "cannot unmarshal string into Go struct field continueToken.rv of type int64",
    ),
    "a revision that is a boolean": (
        token(GOOD | {"rv": True}),
        "cannot unmarshal bool into Go struct field continueToken.rv of type int64",
    ),
    **{
        f"the revision {revision}": (
            token(GOOD | {"rv": revision}),
            f"cannot unmarshal number {revision} into Go struct field continueToken.rv of type int64",
        )
        for revision in (2**63, 2**64, 10**30, 10**400, -(2**63) - 1, -(10**30), 1000.0, -0.5)
    },
    "a revision that is too large for a float": (
        raw_token('{"rv":-1E+400,"start":"a"}'),
        "cannot unmarshal number -1E+400 into Go struct field continueToken.rv of type int64",
    ),
    "a revision behind which there is another one": (
        token(GOOD | {"rv": 1.5, "x": [{"rv": 2}]}),
        "cannot unmarshal number 1.5 into Go struct field continueToken.rv of type int64",
    ),
    "a revision whose name has an escape": (
        raw_token('{"\\u0072v":1.5}'),
        "cannot unmarshal number 1.5 into Go struct field continueToken.rv of type int64",
    ),
    "many lists in each other": (raw_token("[" * 3_000), ""),
    "no start": (token({"v": V1, "rv": 7}), "encoded start key empty"),
    "an empty start": (token(GOOD | {"start": ""}), "encoded start key empty"),
    "a start that is not a string": (
        token(GOOD | {"start": 1}),
        "cannot unmarshal number into Go struct field continueToken.start of type string",
    ),
    "half a surrogate": (token(GOOD | {"start": "\ud800"}), ""),
    "a start above the prefix": (token(GOOD | {"start": "../secrets/a"}), "../secrets/a"),
    "a start with .. in the middle": (token(GOOD | {"start": "a/../b"}), ""),
    "deep nesting": (base64.urlsafe_b64encode(b"[" * 3_000).decode(), ""),
    "a text longer than any token": ("A" * (TOKEN_LENGTH_MAX + 1), ""),
}


@pytest.mark.parametrize(("text", "why"), REFUSED.values(), ids=REFUSED)
def test_an_invalid_token(text: str, why: str) -> None:
    with pytest.raises(InvalidToken) as refused:
        decode_token(text, V1)
    message = str(refused.value)
    assert message.startswith("continue key is not valid: ")
    assert why in message
    assert message.count("continue key is not valid") == 1


@given(st.text() | st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).rstrip(b"=").decode()))
def test_no_text_raises_anything_but_invalid_token(text: str) -> None:
    try:
        decoded = decode_token(text, V1)
    except InvalidToken:
        return
    assert decode_token(decoded.encode(V1), V1) == decoded


SEGMENTS = st.lists(_NAMES | st.sampled_from(["", ".", ".."]), min_size=1, max_size=3)


@given(SEGMENTS)
def test_a_start_is_refused_exactly_if_it_is_no_plain_path(segments: list[str]) -> None:
    """So that no start leads out of the list that its token is used on."""
    start = "/".join(segments)
    text = ContinueToken(7, start).encode(V1)
    keys = prefix_range("/registry/core/configmaps/")
    if {"", ".", ".."}.intersection(start.removeprefix("/").split("/")):
        with pytest.raises(InvalidToken):
            decode_token(text, V1)
    else:
        assert keys.start + decode_token(text, V1).start in keys
