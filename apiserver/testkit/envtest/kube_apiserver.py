"""The program `kube-apiserver` for envtest: the server by that name, with features that only envtest needs.

Three things differ from `apiserver kube-apiserver`. If the stand-in for etcd answers at --etcd-servers,
objects are kept in memory. --insecure-port works, as in releases before 1.20: envtest before 0.9 connects
only there. So does --admission-control, with which envtest before 0.6 switches plugins off.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from apiserver.admission import plugin_names
from apiserver.app.process import announce_ready, run
from apiserver.app.serving import exit_codes
from apiserver.cli import flag_values
from apiserver.cli.argument_parser import Parser, UsageError
from apiserver.cli.command_line import parse
from apiserver.cli.commands import KUBE_APISERVER
from apiserver.cli.config import Config
from apiserver.cli.subcommand import run_subcommand
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.testkit.envtest.etcd_stand_in import NAME as STAND_IN
from apiserver.testkit.envtest.insecure_port import LOOPBACK, InsecurePort, NotLoopback
from apiserver.testkit.flags import hooks_for

# Not everybody waits for etcd before starting the server: the stand-in may just have been started, too.
CONNECTED_WITHIN_S: Final = 5.0
RETRY_S: Final = 0.02
ANSWERED_WITHIN_S: Final = 2.0


def main(arguments: Sequence[str]) -> int:
    if arguments == ["--version"]:
        return run_subcommand(_print_version, exit_codes.FAILURE)
    try:
        insecure_port, given = take_old_flags(arguments)
        config = with_memory_beside_stand_in(parse([KUBE_APISERVER, *given]))
        make_hooks = hooks_for(config)
    except (UsageError, NotLoopback) as error:
        print(f"{KUBE_APISERVER}: {error}", file=sys.stderr)
        return exit_codes.USAGE
    if insecure_port is None:
        return run(config, make_hooks=make_hooks)
    try:
        insecure_port.bind()
    except OSError as error:
        print(f"{KUBE_APISERVER}: --insecure-port: {error.strerror or error}", file=sys.stderr)
        return exit_codes.FAILURE
    serving = []

    def announce(url: str, kubeconfig: Path) -> None:
        # The event loop of the server runs it, and cancels it in the end.
        serving.append(asyncio.get_running_loop().create_task(insecure_port.serve(url, kubeconfig)))
        announce_ready(config, url, kubeconfig)

    return run(config, announce, make_hooks=make_hooks)


def _print_version() -> int:
    print(f"Kubernetes {EmulatedRelease().git_version}")
    return 0


def take_old_flags(arguments: Sequence[str]) -> tuple[InsecurePort | None, Sequence[str]]:
    """Returns the settings of the insecure port's flags, and the arguments for the server.

    Port 0 disables it. --admission-control names all the plugins that run. Raises UsageError, NotLoopback.
    """
    parser = Parser(prog="apiserver", add_help=False, allow_abbrev=False)
    parser.add_argument("--insecure-port", type=_port, default=0)
    parser.add_argument("--insecure-bind-address", default=LOOPBACK)
    parser.add_argument("--admission-control")
    taken, rest = parser.parse_known_args(arguments)
    if taken.admission_control is not None:
        off = plugin_names.ON_BY_DEFAULT - {*taken.admission_control.split(",")}
        rest = [*rest, f"--disable-admission-plugins={','.join(sorted(off))}"]
    return InsecurePort(
        taken.insecure_bind_address, taken.insecure_port
    ) if taken.insecure_port else None, rest


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def with_memory_beside_stand_in(config: Config, *, connected_within_s: float = CONNECTED_WITHIN_S) -> Config:
    """Returns a configuration with the store in memory, if no real etcd is named. Raises UsageError."""
    servers = config.storage.etcd_servers
    if not servers or not all(is_stand_in(each, connected_within_s) for each in servers):
        return config
    if config.serving.workers > 1:
        raise UsageError("--workers requires a real etcd: use `apiserver envtest-assets --etcd real`")
    storage = replace(config.storage, etcd_servers=(), storage_backend=flag_values.MEMORY)
    return replace(config, storage=storage)


def is_stand_in(url: str, connected_within_s: float = CONNECTED_WITHIN_S) -> bool:
    """Returns whether the stand-in for etcd answers at a URL; an unreachable server counts as a real etcd."""
    where = urlsplit(url)
    if where.scheme != "http" or where.hostname is None:
        return False
    gives_up_at = time.monotonic() + connected_within_s
    while True:
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=ANSWERED_WITHIN_S)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().getheader("Server") == STAND_IN
        except ConnectionRefusedError:
            if time.monotonic() > gives_up_at:
                return False
            time.sleep(RETRY_S)
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
