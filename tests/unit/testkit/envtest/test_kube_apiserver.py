"""The program `kube-apiserver` for envtest takes what only old releases have out of its command line."""

from __future__ import annotations

import socket
from typing import Final

import pytest

from apiserver.admission import plugin_names
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.command_line import parse
from apiserver.testkit.envtest.insecure_port import InsecurePort, NotLoopback
from apiserver.testkit.envtest.kube_apiserver import main, take_old_flags, with_memory_beside_stand_in
from tests.support.ports import free_port

REST: Final = ["--cert-dir", "d", "--allow-privileged", "", "--secure-port=0"]
# The flags, whether there is an insecure port, and what is left.
FLAGS: Final = {
    "none of them": ([], False, []),
    "a port": (["--insecure-port=8080"], True, []),
    "a port and an address": (["--insecure-port", "8080", "--insecure-bind-address", "::1"], True, []),
    "no port": (["--insecure-port=0", "--insecure-bind-address=0.0.0.0"], False, []),
    "no plugins": (
        ["--admission-control=AlwaysAdmit"],
        False,
        [f"--disable-admission-plugins={','.join(sorted(plugin_names.ON_BY_DEFAULT))}"],
    ),
    "one plugin": (
        ["--admission-control=ServiceAccount"],
        False,
        [f"--disable-admission-plugins={','.join(sorted(plugin_names.ON_BY_DEFAULT - {'ServiceAccount'}))}"],
    ),
}


@pytest.mark.parametrize(("given", "has_port", "added"), FLAGS.values(), ids=FLAGS)
def test_flags_of_old_releases(given: list[str], has_port: bool, added: list[str]) -> None:
    insecure_port, rest = take_old_flags([*REST, *given])
    assert isinstance(insecure_port, InsecurePort) is has_port
    assert list(rest) == [*REST, *added]


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])
def test_addresses_that_others_reach(address: str) -> None:
    with pytest.raises(NotLoopback, match="is not a loopback address"):
        InsecurePort(address, 8080)


@pytest.mark.parametrize("port", ["-1", "65536", "²", "http", ""])
def test_no_ports(port: str) -> None:
    with pytest.raises(UsageError, match="is not a port"):
        take_old_flags([f"--insecure-port={port}"])


def test_an_insecure_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main([f"--insecure-port={taken.getsockname()[1]}"]) == 1
    assert capsys.readouterr().err == "kube-apiserver: --insecure-port: Address already in use\n"


def test_an_etcd_that_is_not_there_yet_is_a_real_one() -> None:
    config = parse(["kube-apiserver", f"--etcd-servers=http://127.0.0.1:{free_port()}"])
    assert with_memory_beside_stand_in(config, connected_within_s=0.0) == config


def test_without_etcd_nothing_changes() -> None:
    config = parse(["kube-apiserver"])
    assert with_memory_beside_stand_in(config) == config
