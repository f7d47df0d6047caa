"""`apiserver doctor`: checks a configuration, its surroundings, and the running server."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from time import time
from typing import Final
from urllib.parse import urlsplit

from apiserver.app.doctor import (
    certificates,
    clocks,
    configuration,
    deprecated_apis,
    embedded_store,
    etcd_members,
    etcd_probe,
    extensions,
    limits,
    ports,
    running_server,
    secret_files,
    shared_keys,
)
from apiserver.app.doctor.checks import Check, run_checks, within
from apiserver.app.doctor.configuration import ConfigurationFacts
from apiserver.app.doctor.report import Finding, as_document, as_lines, exit_code, warning
from apiserver.cli.argument_parser import Parser, add_output_option
from apiserver.cli.config import Config
from apiserver.cli.flag_values import MEMORY
from apiserver.cli.limited_connection import port_of
from apiserver.cli.printing import print_json, print_lines
from apiserver.cli.server_options import ServerOptions, add_server_options
from apiserver.meta.brand import Brand
from apiserver.wire.configuration_fields import InvalidConfiguration

_ABOUT: Final = """
Checks whether a server can start, and diagnoses problems with a running server. The command prints one line
of advice for each problem. Run the command with the server's flags, or with the server's --config file. The
command does not start a server.

If no server is running, the command checks the configuration, the permissions of secret files, certificates,
the store, clocks and the port. The command checks the keys that replicas share, and the limits on open files
and memory. The storage checks cover each etcd member, or the embedded store and its disk.

If a server is running, the command also inspects health checks, metrics, the watch cache, webhooks,
APIServices and calls to deprecated APIs. To select the server, set --kubeconfig, --context or --server. By
default, the command uses the kubeconfig in --data-dir, provided that a server is listening at its URL.

The command does not change any objects. To measure etcd's latency, the command writes a key through each
endpoint up to three times, and then deletes these keys. The keys are under --etcd-prefix and do not belong to
any resource. To test whether the port is free, the command briefly binds to it.

The exit code is 2 if the command finds errors, 1 if it finds only warnings, and 0 otherwise.
"""
CONNECT_WITHIN_S: Final = 1.0
# A disk that takes longer to read some small files does not serve a server, either.
FILES_WITHIN_S: Final = 5.0


def run(arguments: Sequence[str]) -> int:
    """Print the report that the arguments after `doctor` ask for. Returns the exit code.

    Raises UsageError for options of the command itself; exits for --help.
    """
    given, of_server = parser().parse_known_args(arguments)
    named = ServerOptions.of(given)
    with _silent_logs():
        sections = run_checks(list(_all_checks(of_server, named)))
    if given.output == "json":
        print_json(as_document(sections))
    else:
        print_lines("\n".join(as_lines(sections)))
    return exit_code(sections)


def parser() -> Parser:
    parser = Parser(
        prog="apiserver doctor", description=_ABOUT, usage="%(prog)s [flags] [flags of the server]"
    )
    add_server_options(parser)
    add_output_option(parser, "text", "json")
    return parser


@contextmanager
def _silent_logs() -> Iterator[None]:
    """Keeps the logs of the parts that the checks use off stderr: the findings say the same."""
    handler, root = logging.NullHandler(), logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def _all_checks(arguments: Sequence[str], named: ServerOptions) -> Iterator[Check]:
    """Yields the checks of a configuration and of a server; a file system may hang before any of them runs.

    named: what the command line says about the server to ask.
    """
    try:
        config, loaded = within(lambda: configuration.load(arguments), FILES_WITHIN_S)
    except TimeoutError:
        config, loaded = None, configuration.HANGING
    options: ServerOptions | None = named
    is_known = True
    if named.kubeconfig is None and not named.context and not named.server:
        try:
            options = within(lambda: _own_server(config, named), FILES_WITHIN_S)
        except TimeoutError:
            options, is_known = None, False
    yield from _checks(config, loaded, options, is_own=options is not named)
    if not is_known:
        yield Check("server", _unknown_server)


async def _unknown_server() -> Iterable[Finding]:
    return [
        warning(
            f"the kubeconfig in the data directory cannot be read within {FILES_WITHIN_S:g} s",
            "Check the disk or the network file system of --data-dir, or name the server with --kubeconfig.",
        )
    ]


def _own_server(config: Config | None, options: ServerOptions) -> ServerOptions | None:
    """Returns the options for the server in the data directory; None if none listens."""
    if config is None:
        return None
    options = replace(options, kubeconfig=config.serving.data_dir / "admin.kubeconfig")
    with suppress(OSError, InvalidConfiguration):
        url = options.target().cluster.server
        with socket.create_connection((urlsplit(url).hostname or "", port_of(url)), CONNECT_WITHIN_S):
            return options
    return None


def _checks(
    config: Config | None, loaded: ConfigurationFacts, options: ServerOptions | None, *, is_own: bool
) -> Iterator[Check]:
    """Yields the checks. is_own: whether the options name the server of the data directory."""

    def is_local() -> bool:
        return config is not None and is_own and ports.listener(config) is ports.Listener.THIS_SERVER

    def configured() -> Iterable[Finding]:
        unusable = [] if config is None else list(configuration.unusable_files(config))
        return configuration.examine(loaded, unusable)

    yield Check("configuration", _in_thread(configured))
    if config is not None:
        yield from _checks_of_host(config, options)
        yield from _checks_of_store(config, options)
    if options is not None:
        yield from checks_of_server(options, Brand() if config is None else config.brand, is_local)


def _checks_of_host(config: Config, options: ServerOptions | None) -> Iterator[Check]:
    def certificate_findings() -> Iterable[Finding]:
        files = certificates.gather(config)
        if options is not None:
            files += certificates.gather_kubeconfig(options)
        return certificates.examine(files, datetime.now(UTC))

    yield Check("secret files", _in_thread(lambda: secret_files.examine(secret_files.gather(config))))
    yield Check("certificates", _in_thread(certificate_findings))
    yield Check("open files", _in_thread(lambda: limits.examine_open_files(limits.gather_open_files(config))))
    yield Check("memory", _in_thread(lambda: limits.examine_memory(limits.gather_memory(config))))
    yield Check("port", _in_thread(lambda: ports.examine(ports.gather(config))))


def _checks_of_store(config: Config, options: ServerOptions | None) -> Iterator[Check]:
    async def embedded() -> Iterable[Finding]:
        facts = await embedded_store.gather(config.serving.data_dir / "store")
        return embedded_store.examine(facts, time())

    async def etcd() -> Iterable[Finding]:
        found = await etcd_probe.probe(config)
        return [
            *etcd_members.examine(found.facts),
            *certificates.problems(found.certificates, datetime.now(UTC)),
            *clocks.examine(found.clocks, (), time()),
            *(clocks.examine_leases(found.leases, time()) if found.leases else ()),
        ]

    async def keys() -> Iterable[Finding]:
        return shared_keys.examine(await shared_keys.gather(config, options))

    if config.storage.etcd_servers:
        yield Check("etcd", etcd)
        yield Check("shared keys", keys)
    elif config.storage.storage_backend != MEMORY:
        yield Check("embedded store", embedded)


def checks_of_server(
    options: ServerOptions, brand: Brand, is_local: Callable[[], bool] = lambda: False
) -> Iterator[Check]:
    """Yields the checks of a running server. is_local: asks whether it runs on this machine."""

    @cache
    def asked() -> asyncio.Task[running_server.ServerFacts]:
        """Returns the answers that two checks share."""
        return asyncio.create_task(running_server.gather(options))

    async def server() -> Iterable[Finding]:
        facts = await asked()
        return [
            *running_server.examine(facts),
            *certificates.problems(facts.certificates(), datetime.now(UTC)),
            *clocks.examine([facts.clock] if facts.clock else [], (), time()),
        ]

    async def watch_cache() -> Iterable[Finding]:
        return running_server.examine_cache((await asked()).cache)

    async def reachable() -> Iterable[Finding]:
        facts = await extensions.gather(options, brand, is_local)
        return await asyncio.to_thread(lambda: list(extensions.examine(facts, datetime.now(UTC))))

    yield Check("server", server)
    yield Check("watch cache", watch_cache)
    yield Check("webhooks and APIServices", reachable)
    yield Check(
        "deprecated APIs", _in_thread(lambda: deprecated_apis.examine(deprecated_apis.gather(options)))
    )


def _in_thread(findings: Callable[[], Iterable[Finding]]) -> Callable[[], Awaitable[Iterable[Finding]]]:
    async def run() -> list[Finding]:
        return await asyncio.to_thread(lambda: list(findings()))

    return run
