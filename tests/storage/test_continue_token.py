"""The token between two chunks of a list: what it holds, and that nothing a client makes up gets through.

Row J11; the form and the messages are those of k8s.io/apiserver, pkg/storage/continue.go.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.continue_token import TOKEN_LENGTH_MAX, ContinueToken, InvalidToken, decode_token
from storage.keys import prefix_range
from storage.resource_version import REVISION_MAX

V1: Final = "meta.k8s.io/v1"
# What keys are made of: a namespace and a name at the most, neither of them a step of a path.
_NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1, max_size=150)
STARTS = st.lists(_NAMES.filter(lambda name: name not in (".", "..")), min_size=1, max_size=2).map("/".join)
REVISIONS = st.integers(0, REVISION_MAX)


def token(document: Any) -> str:
    """What a client could send in a token's place."""
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()


def contents(text: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def test_a_token_is_that_of_kubernetes() -> None:
    """Servers of either kind may stand behind one address, so each must read the other's."""
    text = ContinueToken(42, "default/a\0").encode(V1)
    assert contents(text) == {"v": V1, "rv": 42, "start": "default/a\0"}
    assert decode_token("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Nywic3RhcnQiOiJhIn0", V1) == (7, "a")


def test_the_most_recent_state_is_minus_one_on_the_wire() -> None:
    text = ContinueToken(0, "a").encode(V1)
    assert contents(text)["rv"] == -1
    assert decode_token(text, V1) == ContinueToken(0, "a")


@given(REVISIONS, STARTS)
def test_every_token_is_read_back(revision: int, start: str) -> None:
    text = ContinueToken(revision, start).encode(V1)
    assert decode_token(text, V1) == (revision, start)
    assert text.isascii()
    assert text.replace("-", "").replace("_", "").isalnum(), "it must fit into a URL as it is"


GOOD: Final = {"v": V1, "rv": 7, "start": "a"}
REFUSED = {
    "nothing": ("", ""),
    "no base64": ("a!b", "illegal base64 data at input byte 1"),
    "padding": (token(GOOD) + "=", "illegal base64 data"),
    "the other alphabet of base64": ("a+b/", "illegal base64 data at input byte 1"),
    "letters outside ASCII": ("é", "illegal base64 data at input byte 0"),
    "a length that base64 never has": ("AAAAA", "illegal base64 data at input byte 4"),
    "no JSON": ("AAAA", ""),
    "a list": (token([]), ""),
    "a text": (token("a"), ""),
    "null": (token(None), ""),
    "an empty object": (token({}), "server does not recognize this encoded version"),
    "another version": (
        token(GOOD | {"v": "meta.k8s.io/v2"}),
        "server does not recognize this encoded version meta.k8s.io/v2",
    ),
    "a version that is no text": (token(GOOD | {"v": 1}), ""),
    "no revision": (token({"v": V1, "start": "a"}), "incorrect encoded start resourceVersion"),
    "revision zero": (token(GOOD | {"rv": 0}), "incorrect encoded start resourceVersion"),
    "a revision below minus one": (token(GOOD | {"rv": -2}), ""),
    "a fraction": (token(GOOD | {"rv": 1.5}), ""),
    "a revision in text": (token(GOOD | {"rv": "7"}), ""),
    "a truth value": (token(GOOD | {"rv": True}), ""),
    "a revision that no int64 holds": (token(GOOD | {"rv": 2**63}), ""),
    "a revision that no uint64 holds": (token(GOOD | {"rv": 2**64}), ""),
    "no start": (token({"v": V1, "rv": 7}), "encoded start key empty"),
    "an empty start": (token(GOOD | {"start": ""}), "encoded start key empty"),
    "a start that is no text": (token(GOOD | {"start": 1}), ""),
    "half a surrogate": (token(GOOD | {"start": "\ud800"}), ""),
    "a start above its directory": (token(GOOD | {"start": "../secrets/a"}), ""),
    "a start that walks about": (token(GOOD | {"start": "a/../b"}), ""),
    "deep nesting": (base64.urlsafe_b64encode(b"[" * 3_000).decode(), ""),
    "more than any token has": ("A" * (TOKEN_LENGTH_MAX + 1), ""),
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
    assert 0 <= decoded.revision <= REVISION_MAX
    assert decoded.start


@given(STARTS)
def test_a_start_is_refused_exactly_if_it_is_no_plain_path(start: str) -> None:
    keys = prefix_range("/registry/core/configmaps/")
    try:
        decoded = decode_token(token(GOOD | {"start": start}), V1)
    except InvalidToken:
        return
    assert keys.start + decoded.start in keys
