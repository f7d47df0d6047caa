"""Serves the files of the pages from the package, compressed, with their security headers.

They need no user, and so are answered before requests wait for their turn: an answer costs little.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from aiohttp import hdrs

from apiserver.console.joined_modules import JOINED, JoinedModules
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.compression import accepts_gzip, compress
from apiserver.endpoints.responses import send
from apiserver.meta.errors import MethodNotAllowed, NoSuchEndpoint

INDEX: Final = "index.html"
# What begins the page, and before it the view that it loads first.
FIRST_MODULES: Final = ("views/types.js", "main.js")
# What is below this imports none of our modules.
LIBRARIES: Final = "vendor/"
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
# Source: W3C Content Security Policy Level 3, Trusted Types.
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS: Final = {
    # A browser keeps a file, and asks whether it is still the same.
    hdrs.CACHE_CONTROL: "no-cache",
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    hdrs.VARY: hdrs.ACCEPT_ENCODING,
}


class StaticFiles:
    """The files of the pages, by their paths below /console/.

    directory: that of the pages, with `FIRST_MODULES` if there are modules in it.
    """

    def __init__(self, directory: Traversable | None = None) -> None:
        pages = files("apiserver.console") / "pages" if directory is None else directory
        self._files: Mapping[str, Traversable] = dict(_below(pages, ""))
        self._names = {*self._files, JOINED}
        # Each as it is sent, with its ETag, once it has been asked for: 0.9 MB if all were, in both forms.
        self._read: dict[tuple[str, bool], tuple[bytes, str]] = {}
        self._reading = asyncio.Lock()

    async def respond(self, call: ApiCall, name: str) -> None:
        """Send a file, or that the client has it already. name: its path; empty for the index.

        Raises NoSuchEndpoint, MethodNotAllowed.
        """
        name = name or INDEX
        if name not in self._names:
            raise NoSuchEndpoint
        if call.info.method not in ("GET", "HEAD"):
            raise MethodNotAllowed
        headers = call.request.headers
        is_compressed = accepts_gzip(headers.get(hdrs.ACCEPT_ENCODING))
        body, tag = await self.content(name, is_compressed)
        sent = {**_HEADERS, hdrs.ETAG: tag}
        if tag in headers.get(hdrs.IF_NONE_MATCH, ""):
            await send(call, 304, b"", "", sent)
            return
        if is_compressed:
            sent[hdrs.CONTENT_ENCODING] = "gzip"
        await send(call, 200, body, _TYPES[name.rpartition(".")[2]], sent, is_shared=True)

    async def content(self, name: str, is_compressed: bool) -> tuple[bytes, str]:
        """Returns a file as it is sent, and its ETag. name: of one of the files."""
        key = name, is_compressed
        # Anybody may ask, as often as they like: each file is read once, and one at a time.
        if key not in self._read:
            async with self._reading:
                if key not in self._read:
                    self._read[key] = await asyncio.to_thread(self._sent, name, is_compressed)
        return self._read[key]

    def _sent(self, name: str, is_compressed: bool) -> tuple[bytes, str]:
        """Returns a file as it is sent, and its ETag."""
        if name == JOINED:
            content = self.joined.text.encode()
        else:
            content = self._files[name].read_bytes()
            if name.endswith(".js") and not name.startswith(LIBRARIES) and name not in self.joined:
                content = self.joined.linked(name, content.decode()).encode()
        return _sent(content, is_compressed)

    @cached_property
    def joined(self) -> JoinedModules:
        """The modules of the first view."""
        return JoinedModules(FIRST_MODULES, lambda name: self._files[name].read_text("utf-8"))


def _sent(content: bytes, is_compressed: bool) -> tuple[bytes, str]:
    """Returns content as it is sent, and its ETag."""
    tag = hashlib.sha256(content).hexdigest()[:32]
    return (compress(content), f'"{tag}-gzip"') if is_compressed else (content, f'"{tag}"')


def _below(directory: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in directory.iterdir():
        name = prefix + entry.name
        if entry.is_dir():
            yield from _below(entry, f"{name}/")
        elif entry.name.rpartition(".")[2] in _TYPES:
            yield name, entry
