"""Builds the console when somebody visits it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from apiserver.app.access import Access
from apiserver.app.core import Core
from apiserver.app.outbound import Outbound
from apiserver.app.serving.listening import CannotStart
from apiserver.auth.authz.authorizer_modes import Authorizers
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.cli.bounded_files import read_bounded
from apiserver.cli.config import Config
from apiserver.endpoints import console_paths
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.bodies import BodyParser
from apiserver.endpoints.middleware import OpenPaths
from apiserver.load.switch_interval import compute_in_thread
from apiserver.schema.extensions import Extensions

if TYPE_CHECKING:
    from apiserver.console.console import Console
    from apiserver.console.oidc_logins import OidcLogins
    from apiserver.console.playground.endpoint import Playground
    from apiserver.console.watches.multiplexer import WatchAccess
    from apiserver.console.who_can import WhoCan


class ConsoleOpenPaths(NamedTuple):
    """The paths of the console that are answered before others.

    open: those that need no user. of_users: those that need a user, but no right.
    """

    open: OpenPaths
    of_users: OpenPaths


class LazyConsole:
    """The console of a server, which is imported and built when the first request for it comes."""

    def __init__(self, core: Core, access: Access, outbound: Outbound) -> None:
        """Raises CannotStart."""
        self._core, self._access, self._outbound = core, access, outbound
        self._secret = _client_secret(core.config)
        self._console: Console | None = None

    async def answer(self, call: ApiCall) -> bool:
        """Answer a request that needs no user. Returns whether it was one. Raises ApiError."""
        return await self._built().answer(call)

    async def answer_user(self, call: ApiCall) -> bool:
        """Answer a request whose user needs no right for it. Returns whether it was one. Raises ApiError."""
        return await self._built().answer_user(call)

    def _built(self) -> Console:
        if self._console is None:
            self._console = self._build()
        return self._console

    def _build(self) -> Console:
        from apiserver.console.console import Console, ConsoleAccess
        from apiserver.console.revocations import Revocations
        from apiserver.console.watches.endpoint import WatchesEndpoint

        core, access = self._core, self._access
        tokens = access.authentication.console_tokens
        assert tokens is not None
        clock = core.registry.clock
        return Console(
            ConsoleAccess(
                access.authentication.chain,
                access.certificates,
                access.authentication.tokens,
                access.accounts.issuer.derived_key,
                tokens,
                Revocations(core.store, core.config.storage.etcd_prefix, clock.monotonic),
                core.clock,
            ),
            self._oidc(),
            WatchesEndpoint(self._watch_access(), core.metrics.requests),
            read_only=core.config.console.console_read_only,
        )

    def _watch_access(self) -> WatchAccess:
        from apiserver.console.watches.multiplexer import WatchAccess

        core, access = self._core, self._access
        return WatchAccess(
            core.hooks.authentication(access.authentication.chain),
            access.certificates,
            core.origins,
            core.config.authorization.authorization_recheck_interval_s,
        )

    def _oidc(self) -> OidcLogins | None:
        issuers = self._access.authentication.issuers
        if issuers is None:
            return None
        from apiserver.console.oidc_logins import OidcClient, OidcLogins

        options = self._core.config.console
        client = OidcClient(options.console_oidc_client_id, self._secret, options.console_oidc_scopes)
        post_form = self._outbound.fetcher.post_form
        return OidcLogins(lambda: issuers.authenticators, client, post_form, self._core.loop_clock)


def console_open_paths(core: Core, access: Access, outbound: Outbound) -> ConsoleOpenPaths | None:
    """Returns the paths of the console; None if it is not served. Raises CannotStart."""
    if not core.config.has_console:
        return None
    console = LazyConsole(core, access, outbound)
    prefix = console_paths.PREFIX.removesuffix("/")
    return ConsoleOpenPaths(
        OpenPaths(prefix, console.answer), OpenPaths(prefix, console.answer_user, console_paths.ROUTED)
    )


def console_handlers(core: Core, authorizers: Authorizers) -> Mapping[str, Mapping[str, Handler]]:
    """Returns the handlers of the console's paths that are handled as the API is, by path and method."""
    if not core.config.has_console:
        return {}
    questions = LazyQuestions(core, authorizers)
    answers = {console_paths.CEL: questions.evaluate, console_paths.WHO_CAN: questions.who_can}
    return {path.strip("/"): {"POST": answers[path]} for path in console_paths.ROUTED}


class LazyQuestions:
    """Answers what clients ask of the server beside the API, by parts that are built for the first one."""

    def __init__(self, core: Core, authorizers: Authorizers) -> None:
        self._core, self._authorizers = core, authorizers
        self._playground: Playground | None = None

    async def evaluate(self, call: ApiCall) -> None:
        """Answer a question about an expression. Raises as `Playground`."""
        if self._playground is None:
            # CEL's modules and libraries take a tenth of a second, if nothing else has needed them before.
            self._playground = await compute_in_thread(self._new_playground)
        await self._playground.respond(call)

    async def who_can(self, call: ApiCall) -> None:
        """Answer a question about permissions. Raises as `WhoCan`."""
        await self._who_can.respond(call)

    def _new_playground(self) -> Playground:
        from apiserver.console.playground.endpoint import Playground

        core = self._core
        playground = Playground(
            self._parser,
            core.served,
            self._authorizers.chain,
            CompatibilityVersion.of(core.config.release, core.config.gates),
            Extensions(core.brand.vendor),
        )
        playground.prepare()
        return playground

    @cached_property
    def _who_can(self) -> WhoCan:
        from apiserver.console.who_can import WhoCan

        return WhoCan(self._parser, self._authorizers, self._core.brand.group("rbac.authorization"))

    @cached_property
    def _parser(self) -> BodyParser:
        return BodyParser(self._core.brand, has_cbor=self._core.config.has_cbor)


def _client_secret(config: Config) -> str:
    """Returns the secret of the OIDC client; empty if there is none. Raises CannotStart."""
    path = config.console.console_oidc_client_secret_file
    if path is None:
        return ""
    flag = "--console-oidc-client-secret-file"
    try:
        secret = read_bounded(path).decode().strip()
    except OSError as error:
        raise CannotStart(f"{flag}: cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise CannotStart(f"{flag}: {path} is not UTF-8") from None
    if not secret:
        raise CannotStart(f"{flag}: {path} is empty")
    return secret
