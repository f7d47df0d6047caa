"""Tells requests of the console's own pages from those that pages of other origins make a browser send.

A browser sends cookies and client certificates whichever page asks, so these prove nothing about the page.
What the browser itself says of the page does: no script can set `Sec-Fetch-Site` or `Origin`.

Sources: W3C Fetch Metadata Request Headers; RFC 6454.
"""

from __future__ import annotations

from typing import Final

from aiohttp import hdrs

from apiserver.endpoints.api_call import ApiCall
from apiserver.meta.errors import Forbidden

_SITE: Final = "Sec-Fetch-Site"
_OWN: Final = "same-origin"
# The user has typed the address, or another program has opened it.
_NO_PAGE: Final = "none"


def require_own_page(call: ApiCall) -> None:
    """Require that a page of this server has sent a request. Raises Forbidden."""
    if call.request.headers.get(_SITE) != _OWN:
        raise Forbidden(f"only pages of this server can use {call.info.path}: {_SITE} must be {_OWN}")
    origin = call.request.headers.get(hdrs.ORIGIN)
    if origin is not None and origin.lower() != own_origin(call):
        raise Forbidden(f"only pages of this server can use {call.info.path}: Origin is another")


def require_no_foreign_page(call: ApiCall) -> None:
    """Require that no page of another origin has sent a request; programs other than browsers may have.

    Raises Forbidden.
    """
    if call.request.headers.get(_SITE, _NO_PAGE) not in (_OWN, _NO_PAGE):
        raise Forbidden(f"pages of other origins cannot use {call.info.path}")


def own_origin(call: ApiCall) -> str:
    """Returns the origin of this server's pages, as the client names the server, in lower case."""
    return f"https://{call.request.headers.get(hdrs.HOST, '').lower()}"
