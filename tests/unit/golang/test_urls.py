"""URLs as Go's net/url parses them: the parts of valid ones, and the errors of others."""

from __future__ import annotations

import contextlib
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.golang.urls import InvalidUrl, is_request_uri, parse, parse_request_uri

# What url.ParseRequestURI takes.
TAKEN: Final = {
    "with a host": "http://a.example/x?y#z",
    "without a path": "https://a",
    "without a host": "http:///x",
    "with a port, if an empty one": "http://a:/",
    "a path": "/path",
    "a path whose first part is empty": "//a b",
    "everything": "*",
    "not of the web": "mailto:a@b",
    "blanks in a path": "/a b",
    "a query is not looked into": "/?%zz",
    "an address in brackets": "http://[::1]:80/",
    "an address in brackets, with a zone": "http://[fe80::1%25eth0]/",
    "of IPv4, as one of IPv6": "http://[::ffff:1.2.3.4]/",
    "a zone may have a blank": "http://[fe80::1%25a%20b]/",
    "a user with a password": "http://u:p@h/",
    "a user with an escape": "http://%41@h/",
    "colons without brackets, before a number": "https://::1",
    "what is not ASCII may be escaped in a host": "http://%e9",
    "or be as it is": "http://é/",
    "brackets of another kind": "http://a<b>",
}


@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN)
def test_valid_request_uris(text: str) -> None:
    parse_request_uri(text)
    assert is_request_uri(text)


REFUSED: Final = {
    "nothing": ("", "empty url"),
    "a relative path": ("path", "invalid URI for request"),
    "no scheme": (":x", "missing protocol scheme"),
    "a control character": ("/\n", "net/url: invalid control character in URL"),
    "a blank in a host": ("http://a b/", 'invalid character " " in host name'),
    "a fragment in a host": ("http://a#b", 'invalid character "#" in host name'),
    "an escape that is none": ("/%zz/%yy", 'invalid URL escape "%zz"'),
    "half an escape": ("/%2", 'invalid URL escape "%2"'),
    "an escape of ASCII in a host": ("http://a%2fb", 'invalid URL escape "%2f"'),
    "the first of two faults in a host": ("http://a b%2f", 'invalid character " " in host name'),
    "a port that is no number": ("http://h:port/", 'invalid port ":port" after host'),
    "a port after brackets": ("http://[::1]80/", 'invalid port "80" after host'),
    "a bracket that does not end": ("http://[::1", "missing ']' in host"),
    "a bracket behind a name": ("http://a[>", "missing ']' in host"),
    "a bracket that ends before it begins": ("http://]a[", 'invalid port "a[" after host'),
    "IPv4 in brackets": ("http://[1.2.3.4]/", "invalid IP-literal"),
    "a name in brackets": ("http://[a]/", 'invalid host: ParseAddr("a"): unable to parse IP'),
    "an escape in brackets": ("http://[%41]/", 'invalid URL escape "%41"'),
    "a zone without a name": (
        "http://[fe80::1%25]/",
        'invalid host: ParseAddr("fe80::1%"): zone must be a non-empty string',
    ),
    "an escape that no zone has": ("http://[fe80::1%25%40]/", 'invalid URL escape "%40"'),
    "a character that no user has": ("http://u^@h/", "net/url: invalid userinfo"),
    "a user with an escape that is none": ("http://%zz@h/", 'invalid URL escape "%zz"'),
}


@pytest.mark.parametrize(("text", "why"), REFUSED.values(), ids=REFUSED)
def test_invalid_request_uris(text: str, why: str) -> None:
    assert not is_request_uri(text)
    with pytest.raises(InvalidUrl) as refused:
        parse_request_uri(text)
    quoted = text.replace("\n", r"\n")
    assert str(refused.value) == f'parse "{quoted}": {why}'


_PIECES: Final = [
    *("http:", "//", "/", "a", "b.c", "[", "]", "::1", "1.2.3.4", ":", "80", "%", "%25", "%e9", "%41", "%zz"),
    *("@", "u", "?", "#", "&", " ", "<", "é", "^", "\\", '"', "-", "\n"),
]


@given(st.lists(st.sampled_from(_PIECES)).map("".join))
def test_whether_it_is_one_is_whether_it_is_read(text: str) -> None:
    try:
        parse_request_uri(text)
    except InvalidUrl:
        assert not is_request_uri(text)
    else:
        assert is_request_uri(text)


@given(st.text())
def test_any_text_is_a_url_or_is_refused(text: str) -> None:
    for read in (parse, parse_request_uri):
        with contextlib.suppress(InvalidUrl):
            read(f"http://{text}")


PARTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "all of them": (
        "HTTP://me:pw@h:1/a%2Fb?c=d#e%41",
        {
            "scheme": "http",
            "user": "me:pw",
            "host": "h:1",
            "path": b"/a/b",
            "raw_path": "/a%2Fb",
            "query": "c=d",
            "fragment": b"eA",
        },
    ),
    "nothing": ("", {}),
    "a relative path": ("a/b", {"path": b"a/b"}),
    "a host without a scheme": ("//h/p", {"host": "h", "path": b"/p"}),
    "a user of no name": ("//@h", {"user": "", "host": "h"}),
    "a user that need not be escaped": ("//%6De!@h", {"user": "me%21", "host": "h"}),
    "a host that is escaped": ("//%c3%a9", {"host": "é"}),
    "a zone": ("//[fe80::1%25en0]:1", {"host": "[fe80::1%en0]:1"}),
    "no path from the root": ("mailto:a@b?c", {"scheme": "mailto", "opaque": "a@b", "query": "c"}),
}


@pytest.mark.parametrize(("text", "parts"), PARTS.values(), ids=PARTS)
def test_parts(text: str, parts: dict[str, Any]) -> None:
    none = parse("")
    url = parse(text)
    names = ("scheme", "opaque", "user", "host", "path", "raw_path", "query", "fragment")
    assert {name: getattr(url, name) for name in names if getattr(url, name) != getattr(none, name)} == parts


NOT_PARSED: Final = {
    "a colon that ends no scheme": ("1:2/x", 'parse "1:2/x": first path segment in URL cannot contain colon'),
    "before a fragment, which is not told": ("//a b#c", 'parse "//a b": invalid character " " in host name'),
    "a fragment": ("/a#%zz", 'parse "/a#%zz": invalid URL escape "%zz"'),
}


@pytest.mark.parametrize(("text", "message"), NOT_PARSED.values(), ids=NOT_PARSED)
def test_invalid_urls(text: str, message: str) -> None:
    with pytest.raises(InvalidUrl) as refused:
        parse(text)
    assert str(refused.value) == message
