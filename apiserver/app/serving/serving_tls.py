"""Secures connections of clients, with certificates and CAs from files that may change.

When a file changes, a new TLS context is made for handshakes that begin later. Open connections and
handshakes under way keep theirs. An invalid file changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from apiserver.app.serving.named_certificates import SniCertificates
from apiserver.app.serving.watched_files import INTERVAL_S, WatchedFiles, read_file
from apiserver.golang.pem import UNREADABLE
from apiserver.golang.tls import DEFAULT_VERSION, INSECURE_SUITES, PREFERRED_SUITES, VERSIONS
from apiserver.golang.x509_parsing import parse_pem_certificates
from apiserver.webhooks.tls import load_certificate

log = logging.getLogger(__name__)

_MINIMUM_VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = dict(
    zip(
        VERSIONS,
        (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3),
        strict=True,
    )
)
# Options that older versions need, and that OpenSSL sets only on request.
_OLD_SUITES: Final = "ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES:RSA+AES:@SECLEVEL=0"
_OLD_VERSIONS: Final = VERSIONS[:2]
# OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which `ssl` has no name for.
_NO_CHECK_TIME: Final = ssl.VerifyFlags(0x200000)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate, with the CAs between it and one that clients trust, and its private key, as PEM."""

    chain: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The files of certificates, keys and CAs for serving. A pair is a certificate and its key.

    named: the pairs for server names, each with the names; without names, those in the certificate count.
    client_cas, front_proxy_cas: the CAs of clients, and of front proxies.
    own_ca: the CA whose certificates clients may always show.
    """

    serving: tuple[Path, Path]
    named: Sequence[tuple[tuple[Path, Path], tuple[str, ...]]] = ()
    client_cas: Path | None
    front_proxy_cas: Path
    own_ca: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsContent:
    """The contents of `TlsFiles`. client_cas: None if there is no such file."""

    serving: KeyPair
    named: tuple[tuple[KeyPair, tuple[str, ...]], ...]
    own_ca: bytes
    client_cas: bytes | None
    front_proxy_cas: bytes

    @property
    def all_client_cas(self) -> bytes:
        """The CAs of clients, including the server's own."""
        return b"\n".join((self.own_ca, self.client_cas or b""))


class TlsOptions(NamedTuple):
    """The TLS options of client connections.

    min_version: one of `VERSIONS`. suites: Go's names of cipher suites; empty for the usual ones.
    checks_times: whether the handshake ends if a client's certificate is not valid by the computer's clock.
        If not, the authenticators refuse one that is not valid by the clock of the server.
    """

    min_version: str = DEFAULT_VERSION
    suites: tuple[str, ...] = ()
    checks_times: bool = True


class UnusableTls(ValueError):
    """A file of certificates, keys or CAs cannot be used. The message is one line, and has no secrets."""


class ServingTls:
    """The TLS context for new connections, which is replaced when its files change.

    context: the current TLS context. content: the file contents that it was made from.
    expirations: when each certificate expires, in seconds since 1970, by what it is; of a file with several
        the one that expires first.
    """

    def __init__(
        self,
        files: TlsFiles,
        options: TlsOptions,
        make: Callable[[TlsContent, TlsOptions], ssl.SSLContext] | None = None,
    ) -> None:
        """make: makes the contexts; `make_context` by default. Raises OSError, UnusableTls."""
        self._files, self._options, self._make = files, options, make or make_context
        self._changing = asyncio.Lock()
        self._subscribers: list[Callable[[TlsContent], None]] = []
        self.content = TlsContent(
            serving=_read_pair(files.serving),
            named=tuple((_read_pair(pair), names) for pair, names in files.named),
            own_ca=read_file(files.own_ca),
            client_cas=None if files.client_cas is None else read_file(files.client_cas),
            front_proxy_cas=read_file(files.front_proxy_cas),
        )
        self.context, self.expirations = self._made_of(self.content)

    def subscribe(self, on_change: Callable[[TlsContent], None]) -> Callable[[], None]:
        """Calls a function after each change of the files, once new handshakes use it; returns a function to
        unsubscribe.
        """
        self._subscribers.append(on_change)
        return partial(self._subscribers.remove, on_change)

    def watched(
        self, observe: Callable[[bool], None], interval_s: float = INTERVAL_S
    ) -> Iterator[WatchedFiles]:
        """Yields the watchers of the files. observe: called after each change with whether it was applied."""
        files, content = self._files, self.content
        watch = partial(WatchedFiles, observe=observe, interval_s=interval_s)
        serving = content.serving
        yield watch("serving certificate", files.serving, (serving.chain, serving.key), self._take_serving)
        for index, ((pair, _), (known, _)) in enumerate(zip(files.named, content.named, strict=True)):
            take = partial(self._take_named, index)
            yield watch(f"--tls-sni-cert-key {pair[0]}", pair, (known.chain, known.key), take)
        if files.client_cas is not None:
            known_cas = content.client_cas or b""
            yield watch("--client-ca-file", (files.client_cas,), (known_cas,), self._take_client_cas)
        yield watch("CA", (files.own_ca,), (content.own_ca,), self._take_own_ca)
        yield watch(
            "CAs of front proxies",
            (files.front_proxy_cas,),
            (content.front_proxy_cas,),
            self._take_front_proxy_cas,
        )

    async def _take_serving(self, contents: Sequence[bytes]) -> None:
        await self._take(lambda content: replace(content, serving=KeyPair(*contents)))

    async def _take_named(self, index: int, contents: Sequence[bytes]) -> None:
        def change(content: TlsContent) -> TlsContent:
            named = list(content.named)
            named[index] = (KeyPair(*contents), named[index][1])
            return replace(content, named=tuple(named))

        await self._take(change)

    async def _take_own_ca(self, contents: Sequence[bytes]) -> None:
        await self._take(lambda content: replace(content, own_ca=contents[0]))

    async def _take_client_cas(self, contents: Sequence[bytes]) -> None:
        await self._take(lambda content: replace(content, client_cas=contents[0]))

    async def _take_front_proxy_cas(self, contents: Sequence[bytes]) -> None:
        await self._take(lambda content: replace(content, front_proxy_cas=contents[0]))

    async def _take(self, change: Callable[[TlsContent], TlsContent]) -> None:
        """Apply a change to the present content. Raises UnusableTls."""
        async with self._changing:
            content = change(self.content)
            context, expirations = await asyncio.to_thread(self._made_of, content)
            self.context, self.content, self.expirations = context, content, expirations
            for on_change in self._subscribers:
                on_change(content)

    def _made_of(self, content: TlsContent) -> tuple[ssl.SSLContext, Mapping[str, float]]:
        """Returns the TLS context for some content, and when its certificates expire. Raises UnusableTls."""
        return self._make(content, self._options), self._expirations_of(content)

    def _expirations_of(self, content: TlsContent) -> Mapping[str, float]:
        """Returns when certificates expire, in seconds since 1970, by flag. Raises UnusableTls."""
        files = [("serving certificate", content.serving.chain), ("CA", content.own_ca)]
        for (pair, _), (known, _) in zip(self._files.named, content.named, strict=True):
            files.append((f"--tls-sni-cert-key {pair[0]}", known.chain))
        if content.client_cas is not None:
            files.append(("--client-ca-file", content.client_cas))
        files.append(("CAs of front proxies", content.front_proxy_cas))
        return {name: expires_at(name, pem) for name, pem in files}


def expires_at(what: str, pem: bytes) -> float:
    """Returns when the first of some certificates expires, in seconds since 1970. Raises UnusableTls."""
    return min(each.not_valid_after_utc.timestamp() for each in _certificates(what, pem))


def make_context(content: TlsContent, options: TlsOptions) -> ssl.SSLContext:
    """Returns the context for connections whose clients name no server.

    Raises UnusableTls.
    """
    context = _context(content, content.serving, options)
    if not content.named:
        return context
    # None stands for this context, which would otherwise refer to itself.
    choices = SniCertificates[ssl.SSLContext | None](
        (None, _leaf(content.serving)),
        [(_context(content, pair, options), names, _leaf(pair)) for pair, names in content.named],
    )

    def choose(tls: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if not name and choices.has_addresses and isinstance(tls, ssl.SSLSocket):
            name = tls.getsockname()[0].removeprefix("::ffff:")
        if name and (chosen := choices.choose(name)) is not None:
            tls.context = chosen

    context.sni_callback = choose
    return context


def _context(content: TlsContent, pair: KeyPair, options: TlsOptions) -> ssl.SSLContext:
    """Returns a TLS context that shows one certificate. Raises UnusableTls."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # To negotiate again costs clients little and servers much, and no client needs it.
    context.options |= ssl.OP_NO_RENEGOTIATION
    # Client certificates are optional. One that no CA here has signed ends the handshake.
    context.verify_mode = ssl.CERT_OPTIONAL
    # A CA is trusted for itself, as in Go, also if another has signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if not options.checks_times:
        context.verify_flags |= _NO_CHECK_TIME
    context.set_alpn_protocols(["http/1.1"])
    _restrict(context, options)
    try:
        load_certificate(context, pair.chain, pair.key)
    except ValueError as error:
        raise UnusableTls(f"the serving certificate cannot be used: {error}") from None
    for what, authorities in (
        ("the CA", content.own_ca),
        ("--client-ca-file", content.client_cas),
        ("--requestheader-client-ca-file", content.front_proxy_cas),
    ):
        if authorities is not None:
            encoded = (each.public_bytes(Encoding.DER) for each in _certificates(what, authorities))
            context.load_verify_locations(cadata=b"".join(encoded))
    return context


def _restrict(context: ssl.SSLContext, options: TlsOptions) -> None:
    """Restrict a context to the versions and cipher suites that are configured. Raises UnusableTls."""
    older = {**PREFERRED_SUITES, **INSECURE_SUITES}
    suites = [older[each] for each in options.suites if each in older]
    minimum = _MINIMUM_VERSIONS[options.min_version]
    if options.suites and not suites:
        minimum = ssl.TLSVersion.TLSv1_3  # Older versions have none that they may use.
    context.minimum_version = minimum
    text = ":".join(suites)
    if options.min_version in _OLD_VERSIONS:
        text = f"{text}:@SECLEVEL=0" if text else _OLD_SUITES
    if text:
        try:
            context.set_ciphers(text)
        except ssl.SSLError:
            raise UnusableTls("--tls-cipher-suites: OpenSSL supports none of these suites") from None


def _read_pair(paths: tuple[Path, Path]) -> KeyPair:
    """Read a certificate and its key. Raises OSError."""
    return KeyPair(*map(read_file, paths))


def _leaf(pair: KeyPair) -> x509.Certificate:
    """Returns the first certificate of a chain. Raises UnusableTls."""
    return _certificates("the serving certificate", pair.chain)[0]


def _certificates(what: str, pem: bytes) -> Sequence[x509.Certificate]:
    """Parse certificates. Raises UnusableTls."""
    try:
        return parse_pem_certificates(pem)
    except UNREADABLE:
        raise UnusableTls(f"{what}: a certificate is missing or invalid") from None
