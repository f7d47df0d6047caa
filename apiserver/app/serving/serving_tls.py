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
from typing import Final, NamedTuple, Self

from apiserver.app.serving.watched_files import INTERVAL_S, WatchedFiles, read_file
from apiserver.golang.pem import certificates_in_der, first_expiry
from apiserver.golang.tls import DEFAULT_VERSION, INSECURE_SUITES, PREFERRED_SUITES, VERSIONS
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


class KnownTls(NamedTuple):
    """The contents of `TlsFiles`, and what is known of them: each certificate can be read.

    authorities: the CAs of clients and of front proxies, in DER, by what they are.
    expirations: when each certificate expires, in seconds since 1970, by what it is; of a file with several
        the one that expires first.
    trusted: the certificates, as PEM, by which clients verify the server.
    """

    content: TlsContent
    authorities: Mapping[str, bytes]
    expirations: Mapping[str, float]
    trusted: bytes

    @classmethod
    def of(cls, files: TlsFiles, content: TlsContent) -> Self:
        """Look into certificates. files: where they are from. Raises UnusableTls."""
        from apiserver.app.serving.pki import trusted_for

        authorities = _authorities_of(content)
        expirations = _expirations_of(files, content)
        trusted = trusted_for(content.serving.chain, (content.all_client_cas,))
        return cls(content, authorities, expirations, trusted)


def read_content(files: TlsFiles) -> TlsContent:
    """Read the files. Raises OSError."""
    return TlsContent(
        serving=_read_pair(files.serving),
        named=tuple((_read_pair(pair), names) for pair, names in files.named),
        own_ca=read_file(files.own_ca),
        client_cas=None if files.client_cas is None else read_file(files.client_cas),
        front_proxy_cas=read_file(files.front_proxy_cas),
    )


class ServingTls:
    """The TLS context for new connections, which is replaced when its files change.

    context: the current TLS context. known: the contents of the files that it was made from.
    """

    def __init__(
        self,
        files: TlsFiles,
        options: TlsOptions,
        make: Callable[[KnownTls, TlsOptions], ssl.SSLContext] | None = None,
        known: KnownTls | None = None,
    ) -> None:
        """make: makes the contexts; `make_context` by default. known: the files, if they have been read.

        Raises OSError, UnusableTls.
        """
        self._files, self._options, self._make = files, options, make or make_context
        self._changing = asyncio.Lock()
        self._subscribers: list[Callable[[TlsContent], None]] = []
        self.known = KnownTls.of(files, read_content(files)) if known is None else known
        self.context = self._make(self.known, options)

    @property
    def content(self) -> TlsContent:
        return self.known.content

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
            self.known, self.context = await asyncio.to_thread(self._made_of, change(self.content))
            for on_change in self._subscribers:
                on_change(self.content)

    def _made_of(self, content: TlsContent) -> tuple[KnownTls, ssl.SSLContext]:
        """Returns what is known of some content, and the TLS context for it. Raises UnusableTls."""
        known = KnownTls.of(self._files, content)
        return known, self._make(known, self._options)


def _authorities_of(content: TlsContent) -> Mapping[str, bytes]:
    """Returns the CAs of clients and of front proxies, in DER. Raises UnusableTls."""
    found = {"the CA": content.own_ca, "--requestheader-client-ca-file": content.front_proxy_cas}
    if content.client_cas is not None:
        found["--client-ca-file"] = content.client_cas
    authorities = {}
    for what, pem in found.items():
        try:
            authorities[what] = certificates_in_der(pem)
        except ValueError as error:
            raise UnusableTls(f"{what}: {error}") from None
    return authorities


def _expirations_of(files: TlsFiles, content: TlsContent) -> Mapping[str, float]:
    """Returns when certificates expire, in seconds since 1970, by flag. Raises UnusableTls."""
    found = [("serving certificate", content.serving.chain), ("CA", content.own_ca)]
    for (pair, _), (known, _) in zip(files.named, content.named, strict=True):
        found.append((f"--tls-sni-cert-key {pair[0]}", known.chain))
    if content.client_cas is not None:
        found.append(("--client-ca-file", content.client_cas))
    found.append(("CAs of front proxies", content.front_proxy_cas))
    return {name: expires_at(name, pem) for name, pem in found}


def expires_at(what: str, pem: bytes) -> float:
    """Returns when the first of some certificates expires, in seconds since 1970. Raises UnusableTls."""
    try:
        return first_expiry(pem)
    except ValueError as error:
        raise UnusableTls(f"{what}: {error}") from None


def make_context(known: KnownTls, options: TlsOptions) -> ssl.SSLContext:
    """Returns the context for connections whose clients name no server.

    Raises UnusableTls.
    """
    content = known.content
    context = _context(known, content.serving, options)
    if not content.named:
        return context
    # Few servers have them, and only these read names in certificates.
    from apiserver.app.serving.named_certificates import SniCertificates, leaf_of

    # None stands for this context, which would otherwise refer to itself.
    choices = SniCertificates[ssl.SSLContext | None](
        (None, leaf_of(content.serving.chain)),
        [(_context(known, pair, options), names, leaf_of(pair.chain)) for pair, names in content.named],
    )

    def choose(tls: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if not name and choices.has_addresses and isinstance(tls, ssl.SSLSocket):
            name = tls.getsockname()[0].removeprefix("::ffff:")
        if name and (chosen := choices.choose(name)) is not None:
            tls.context = chosen

    context.sni_callback = choose
    return context


def _context(known: KnownTls, pair: KeyPair, options: TlsOptions) -> ssl.SSLContext:
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
    for what, authorities in known.authorities.items():
        try:
            context.load_verify_locations(cadata=authorities)
        except ssl.SSLError:  # Two libraries may not agree on what is valid.
            raise UnusableTls(f"{what}: OpenSSL cannot read a certificate") from None
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
