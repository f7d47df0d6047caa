"""Links in HTML that passes through. Source: k8s.io/apimachinery, pkg/util/proxy/transport_test.go."""

from __future__ import annotations

import time
from typing import Final

import pytest

from apiserver.endpoints.reverse_proxy.html import TAG_BYTES_MAX, LinkRewriter

DOCUMENTS: Final = {
    "a link": (b'<a href="/x">y</a>', b'<a href="/P/x">y</a>'),
    "no quotes": (b"<a href=/x>y</a>", b'<a href="/P/x">y</a>'),
    "single quotes": (b"<a class=c href='/x' id=d>", b"<a class=c href='/P/x' id=d>"),
    "upper case": (b'<IMG SRC = "/x"/>', b'<IMG SRC = "/P/x"/>'),
    "an entity": (b'<a href="/x?a&amp;b">', b'<a href="/P/x?a&amp;b">'),
    "other attributes and elements": (b'<p src="/x"><a title="/x">', b'<p src="/x"><a title="/x">'),
    "a script": (
        b'<script src="/s">if (a<b) c=\'<a href="/x">\';</script><a href="/y">',
        b'<script src="/P/s">if (a<b) c=\'<a href="/x">\';</script><a href="/P/y">',
    ),
    "a comment": (b'<!-- <a href="/x"> --><a href="/y">', b'<!-- <a href="/x"> --><a href="/P/y">'),
    "a declaration": (b'<!DOCTYPE html><?x "/y"?></a>', b'<!DOCTYPE html><?x "/y"?></a>'),
    "text that looks like markup": (b"1 < 2 <3 <", b"1 < 2 <3 <"),
    "a tag that never ends": (b'a<a href="/x', b'a<a href="/x'),
    "bytes that are no text": (b'\xff<a href="/\xfe">\x00', b'\xff<a href="/P/\xfe">\x00'),
    "attributes without values": (b'<a hidden href="/x" download >', b'<a hidden href="/P/x" download >'),
    "a character of too many digits": (
        b'<a href="/&#' + b"9" * 5000 + b';" href="/x">',
        b'<a href="/&#' + b"9" * 5000 + b';" href="/P/x">',
    ),
    "nothing": (b"", b""),
}


def rewriter() -> LinkRewriter:
    return LinkRewriter(lambda link: f"/P{link}" if link.startswith("/") else link)


@pytest.mark.parametrize(("document", "passed"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_links_are_rewritten(document: bytes, passed: bytes) -> None:
    assert rewriter().feed(document, is_last=True) == passed


@pytest.mark.parametrize(("document", "passed"), DOCUMENTS.values(), ids=DOCUMENTS)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_however_the_document_is_cut(document: bytes, passed: bytes, size: int) -> None:
    links = rewriter()
    pieces = [links.feed(document[begin : begin + size]) for begin in range(0, len(document), size)]
    assert b"".join([*pieces, links.feed(b"", is_last=True)]) == passed


def test_a_tag_without_end_is_not_kept() -> None:
    links = rewriter()
    sent = passed = 0
    for _ in range(40):
        piece = b'<a href="' + b"x" * (TAG_BYTES_MAX // 16)
        sent += len(piece)
        passed += len(links.feed(piece))
        assert sent - passed <= TAG_BYTES_MAX + len(piece)


def test_a_long_tag_is_read_once() -> None:
    """A backend chooses what is in a tag; one long word in it took five seconds of the event loop."""
    document = b"<a " + b"x" * (TAG_BYTES_MAX - 4) + b">"
    began = time.thread_time()
    assert rewriter().feed(document) == document
    assert time.thread_time() - began < 0.5
