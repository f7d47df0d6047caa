"""`apiserver storage`; here `storage rewrite`, which has a running server write its objects again.

`apiserver migrate` is the same under the name that one looks for after an upgrade, and calls itself so.

It goes through the API, as any client: the embedded store belongs to the server, replicas see the writes, and
nothing is written that the server would refuse. An object that is up to date is not written.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import shlex
import signal
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import orjson

from apiserver.cli import storage_copy
from apiserver.cli.api_client import ANSWER_BYTES_MAX, user_agent
from apiserver.cli.argument_parser import UsageError, path
from apiserver.cli.bounded_files import read_bounded
from apiserver.cli.command_line import parse
from apiserver.cli.flag_sections.serving import ServingOptions
from apiserver.cli.intermixed_parser import IntermixedParser
from apiserver.cli.limited_connection import reason_of
from apiserver.cli.printing import print_lines, print_warning
from apiserver.cli.rewriter import (
    CONCURRENT_WRITES,
    Interrupted,
    RewriteFailed,
    Rewriter,
    Send,
    ServerResponse,
)
from apiserver.golang.urls import redacted_urls
from apiserver.webhooks.credential_files import CredentialFiles
from apiserver.webhooks.errors import CallFailed
from apiserver.webhooks.kubeconfig import read_server
from apiserver.webhooks.tls import UnusableBundle, UnusableCertificate, client_context
from apiserver.wire.configuration_fields import InvalidConfiguration

STORAGE: Final = "storage"
MIGRATE: Final = "migrate"
_REWRITE: Final = "rewrite"
_DESCRIPTION: Final = """
Rewrites stored objects that are out of date. An object is out of date if it does not use the current storage
version, or the current encryption provider and key in --encryption-provider-config. The command skips objects
that are up to date. RESOURCE is a resource name such as `secrets` or `widgets.example.com`. By default, the
command rewrites all resources except Events, because they expire. If the server runs with --history, the
command also encrypts the recorded values of these resources with the current key. The user needs permission
to use the post verb on the path /history/rewrite. Each replica has its own history: run the command against
each of them.

The command connects to the server in the --kubeconfig file. By default, the command uses the administrator's
kubeconfig in --data-dir. If the command is interrupted, it prints a command line that continues the rewrite.
To start again from the beginning, run the original command again. If the server cannot write an object, the
command fails and prints the object's name.
"""
RATE: Final = 100
RATE_MAX: Final = 100_000
REQUEST_TIMEOUT_S: Final = 60.0
# How long the objects that are being written may take after a signal.
STOP_WITHIN_S: Final = 2.0


# ---- the server


@asynccontextmanager
async def _server(path: Path, command: str) -> AsyncIterator[Send]:
    """Yields what sends requests to the server that a kubeconfig names. Raises RewriteFailed."""
    try:
        cluster, credentials = read_server(path, read_bounded)
        files = CredentialFiles()
        authorities = b"" if cluster.authorities is None else await files.pem(cluster.authorities)
        proof = await files.proof(credentials)
        context = client_context(base64.b64encode(authorities).decode(), proof.certificate)
    except OSError as error:
        raise RewriteFailed(f"cannot read {path}: {error.strerror or error}") from None
    except (InvalidConfiguration, CallFailed, UnusableBundle, UnusableCertificate) as error:
        raise RewriteFailed(str(error)) from None
    timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
    url = cluster.server.rstrip("/")
    connector = aiohttp.TCPConnector(ssl=context, limit=CONCURRENT_WRITES)
    agent = {"User-Agent": user_agent(command)}
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=agent) as session:

        async def send(method: str, target: str, headers: Mapping[str, str], body: bytes) -> ServerResponse:
            try:
                async with session.request(
                    method,
                    url + target,
                    headers=[*headers.items(), *proof.headers],
                    data=body or None,
                    server_hostname=cluster.tls_server_name or None,
                    allow_redirects=False,
                ) as response:
                    content = await _read(response)
            # ValueError: of a path that cannot be sent.
            except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                raise RewriteFailed(
                    f"the request to {redacted_urls(url)} failed: {_reason_of(error)}"
                ) from None
            try:
                document = orjson.loads(content)
            except orjson.JSONDecodeError:
                document = {}
            retry_after = response.headers.get("Retry-After", "")
            seconds = float(retry_after) if retry_after.isdigit() else 0.0
            return ServerResponse(response.status, document if isinstance(document, dict) else {}, seconds)

        yield send


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Returns what is in a response. Raises RewriteFailed if that is too long."""
    content = bytearray()
    async for piece in response.content.iter_any():
        content += piece
        if len(content) > ANSWER_BYTES_MAX:
            raise RewriteFailed(f"the response is longer than {ANSWER_BYTES_MAX} bytes")
    return bytes(content)


def _reason_of(error: Exception) -> str:
    """Returns why a server has not answered. The library's own texts have lines and what was received."""
    match error:
        case aiohttp.ClientConnectorCertificateError() if isinstance(error.certificate_error, ssl.SSLError):
            return reason_of(error.certificate_error)
        case aiohttp.ClientConnectorError():
            return reason_of(error.os_error)
        case TimeoutError():
            return f"no response within {REQUEST_TIMEOUT_S:g} s"
        case aiohttp.ServerDisconnectedError(message=str()):
            return "the server closed the connection without a response"
        case aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError():
            return "the response is incomplete"
        case aiohttp.ClientResponseError():
            return "the response is not valid HTTP"
        case _:
            return reason_of(error)


# ---- the command line


def run(arguments: Sequence[str]) -> bool:
    """Run the command that the arguments name: of `storage`, or `migrate`.

    Returns False if objects have failed.
    Raises UsageError, RewriteFailed, Interrupted, StorageError; exits for --help.
    """
    command, *others = arguments
    given = parser(command).parse_args(others)
    if given.command == f"{STORAGE} {storage_copy.COPY}":
        storage_copy.run(given)
        return True
    return asyncio.run(_run(given))


async def _run(given: argparse.Namespace) -> bool:
    async with _server(given.kubeconfig or _administrators(given), given.command) as send:
        rewriter = Rewriter(send, rate=given.rate, tell=print_lines, warn=print_warning)
        running = asyncio.ensure_future(rewriter.run([*dict.fromkeys(given.resources)], given.after))
        loop = asyncio.get_running_loop()
        received: list[int] = []

        def on_signal(number: int) -> None:
            received.append(number)
            rewriter.stop()
            # The server may not respond. A write whose outcome is unknown does no harm.
            loop.call_later(STOP_WITHIN_S, running.cancel)

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal, number)
        try:
            await running
        except (Interrupted, asyncio.CancelledError):
            if not received:
                raise
            raise Interrupted(rewriter.position, received[0]) from None
        return not rewriter.failed


def _administrators(given: argparse.Namespace) -> Path:
    """Returns the kubeconfig that a server writes into its data directory. Raises UsageError."""
    config = parse([] if given.data_dir is None else [f"--data-dir={given.data_dir}"])
    path = config.serving.data_dir / "admin.kubeconfig"
    if not path.is_file():
        raise UsageError(
            f"{given.command}: {path} does not exist; use --kubeconfig or --data-dir to name the server"
        )
    return path


def _rate(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= RATE_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {RATE_MAX}")
    return int(text)


def parser(command: str = STORAGE) -> IntermixedParser:
    """Returns the parser of what follows `storage`, or `migrate`."""
    parser = IntermixedParser(prog=f"apiserver {command}")
    if command == MIGRATE:
        _describe(parser, MIGRATE)
        return parser
    parser.description = "Rewrites stored objects, or copies one store to another."
    commands = parser.add_subparsers(metavar=f"{_REWRITE}|{storage_copy.COPY}", required=True)
    rewrite = commands.add_parser(_REWRITE, help="Rewrite stored objects that are out of date.")
    _describe(rewrite, f"{STORAGE} {_REWRITE}")
    copy = commands.add_parser(storage_copy.COPY, help=storage_copy.SUMMARY)
    storage_copy.describe(copy)
    copy.set_defaults(command=f"{STORAGE} {storage_copy.COPY}")
    return parser


def migrate_parser() -> IntermixedParser:
    """Returns the parser of what follows `migrate`."""
    return parser(MIGRATE)


def _describe(parser: argparse.ArgumentParser, command: str) -> None:
    """Tell a parser what the command does and takes. command: its name, which is parsed along."""
    parser.description = _DESCRIPTION
    parser.set_defaults(command=command)
    parser.add_argument("resources", nargs="*", default=[], metavar="RESOURCE", help="A resource to rewrite.")
    parser.add_argument("--kubeconfig", type=path, metavar="FILE", help="The kubeconfig file for the server.")
    default = ServingOptions().data_dir
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help="The server's data directory, which contains the administrator's kubeconfig. (default "
        f"{default})",
    )
    parser.add_argument(
        "--rate",
        type=_rate,
        default=RATE,
        metavar="N",
        help="The maximum number of objects to write per second. (default %(default)s)",
    )
    parser.add_argument(
        "--after",
        default="",
        metavar="POSITION",
        help="The position after which the rewrite continues. An interrupted command prints this position.",
    )


def resume_hint(arguments: Sequence[str], interrupted: Interrupted) -> Iterator[str]:
    """Yields the lines that say how to go on. arguments: those that `run` was given."""
    yield "interrupted"
    if interrupted.position:
        again = [*_without_after(arguments), f"--after={interrupted.position}"]
        yield f"continue with: apiserver {' '.join(map(_shell_word, again))}"


def _shell_word(text: str) -> str:
    """Returns a text as shells take it, though it may have characters that a terminal obeys.

    For these there is `$'...'`: POSIX.1-2024 has it, and bash and zsh.
    """
    if text.isprintable():
        return shlex.quote(text)
    escaped = (
        char if char.isprintable() else "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))
        for char in text.replace("\\", r"\\").replace("'", r"\'")
    )
    return f"$'{''.join(escaped)}'"


def _without_after(arguments: Sequence[str]) -> Iterator[str]:
    skips = False
    for each in arguments:
        if skips:
            skips = False
        elif each == "--after":
            skips = True
        elif not each.startswith("--after="):
            yield each
