"""Rewrites the links in HTML, piece by piece, while it passes through.

Everything but the rewritten values is passed on byte for byte, as is invalid markup. Source:
k8s.io/apimachinery, pkg/util/proxy/transport.go, rewriteHTML.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from typing import Final

# The attributes that hold URLs, by element.
_ATTRIBUTES: Final[Mapping[bytes, frozenset[bytes]]] = {
    element.encode(): frozenset(each.encode() for each in attributes.split())
    for element, attributes in {
        "a": "href",
        "applet": "codebase",
        "area": "href",
        "audio": "src",
        "base": "href",
        "blockquote": "cite",
        "body": "background",
        "button": "formaction",
        "command": "icon",
        "del": "cite",
        "embed": "src",
        "form": "action",
        "frame": "longdesc src",
        "head": "profile",
        "html": "manifest",
        "iframe": "longdesc src",
        "img": "longdesc src usemap",
        "input": "src usemap formaction",
        "ins": "cite",
        "link": "href",
        "object": "classid codebase data usemap",
        "q": "cite",
        "script": "src",
        "source": "src",
        "video": "poster src",
    }.items()
}
# Elements whose content is text, up to their end tag.
_RAW_TEXT: Final = frozenset(
    {b"iframe", b"noembed", b"noframes", b"script", b"style", b"textarea", b"title", b"xmp"}
)
# A longer tag, or the beginning of one, is passed on as text.
TAG_BYTES_MAX: Final = 64 * 1024

_MARKUP: Final = re.compile(rb"<(?:!--|[!/?]|[A-Za-z])")
_TAG: Final = re.compile(rb"""<([A-Za-z][^\s/>]*+)((?:[^>"']++|"[^"]*+"|'[^']*+')*+)>""")
# One without a value is found, too: else each of its letters would be tried as the beginning of one.
_ATTRIBUTE: Final = re.compile(rb"""([^\s=/>"']++)(?:(\s*+=\s*+)("[^"]*+"|'[^']*+'|[^\s>"']++))?+""")


class LinkRewriter:
    """Rewrites the links of one document. rewrite: returns the new link."""

    def __init__(self, rewrite: Callable[[str], str]) -> None:
        self._rewrite = rewrite
        self._pending = b""
        self._raw_end: re.Pattern[bytes] | None = None  # the end tag of the text that it is in

    def feed(self, data: bytes, *, is_last: bool = False) -> bytes:
        """Returns the part of the document that can be passed on so far; all of it after the last piece."""
        text, done, passed = self._pending + data, 0, []
        while True:
            start, end = self._next(text, done, is_last=is_last)
            if end < 0:
                break
            passed += [text[done:start], self._passed(text[start:end])]
            done = end
        passed.append(text[done:start])
        self._pending = text[start:]
        if len(self._pending) > TAG_BYTES_MAX or is_last:
            passed.append(self._pending)
            self._pending = b""
        return b"".join(passed)

    def _next(self, text: bytes, begin: int, *, is_last: bool) -> tuple[int, int]:
        """Returns where the next markup begins and ends.

        An end below 0 means that no markup is complete; it may still be completed from the begin on.
        """
        if self._raw_end is not None:
            found = self._raw_end.search(text, begin)
            if found is None:
                # The end tag may be cut off.
                cut = text.rfind(b"<", begin)
                return (cut if cut >= 0 and not is_last else len(text)), -1
            self._raw_end = None
            return found.start(), found.end()
        found = _MARKUP.search(text, begin)
        if found is None:
            is_cut = text.endswith((b"<", b"<!", b"<!-")) and not is_last
            return (max(text.rfind(b"<"), begin) if is_cut else len(text)), -1
        start, mark = found.start(), found[0]
        if mark == b"<!--":
            end = text.find(b"-->", found.end())
            return start, end + 3 if end >= 0 else -1
        if mark in (b"<!", b"</", b"<?"):
            if mark == b"<!" and len(text) - start < len(b"<!--") and not is_last:
                return start, -1
            return start, text.find(b">", start) + 1 or -1
        tag = _TAG.match(text, start)
        return start, tag.end() if tag is not None else -1

    def _passed(self, markup: bytes) -> bytes:
        """Returns complete markup as it is passed on."""
        tag = _TAG.fullmatch(markup)
        if tag is None:
            return markup
        element = tag[1].lower()
        if element in _RAW_TEXT:
            self._raw_end = re.compile(rb"</%b[\s/>]" % re.escape(element), re.IGNORECASE)
        attributes = _ATTRIBUTES.get(element)
        if attributes is None:
            return markup

        def attribute(found: re.Match[bytes]) -> bytes:
            value = found[3]
            if value is None or found[1].lower() not in attributes:
                return found[0]
            quote = value[:1] if value[:1] in (b'"', b"'") else b""
            text = value[1:-1] if quote else value
            try:
                link = html.unescape(text.decode("utf-8", "surrogateescape"))
            except ValueError:  # A character by a number of thousands of digits.
                return found[0]
            rewritten = self._rewrite(link)
            if rewritten == link:
                return found[0]
            quote = quote or b'"'
            changed = html.escape(rewritten).encode("utf-8", "surrogateescape")
            return b"".join((found[1], found[2], quote, changed, quote))

        return b"<%b%b>" % (tag[1], _ATTRIBUTE.sub(attribute, tag[2]))
