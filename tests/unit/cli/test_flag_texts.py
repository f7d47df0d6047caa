"""What /flagz tells of flags: values as Go's flags write them, and no secrets."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.cli.command_line import parse
from apiserver.cli.flag_texts import changed_flag_texts, flag_texts
from apiserver.cli.flags import SECTIONS

# A flag as it is given, its name, and what is told of it.
GIVEN: Final = {
    "a duration": ("--event-ttl=90m", "event-ttl", "1h30m0s"),
    "a number": ("--max-watches=7", "max-watches", "7"),
    "a number of seconds": ("--min-request-timeout=60", "min-request-timeout", "60"),
    "a fraction": ("--audit-log-batch-throttle-qps=0.5", "audit-log-batch-throttle-qps", "0.5"),
    "a list": ("--authorization-mode=Node,RBAC", "authorization-mode", "[Node,RBAC]"),
    "truth": ("--anonymous-auth=false", "anonymous-auth", "false"),
    "truth without a value": ("--strict-kube-compat", "strict-kube-compat", "true"),
    "gates": ("--feature-gates=AllBeta=true,AllAlpha=false", "feature-gates", "AllAlpha=false,AllBeta=true"),
    "a configuration": ("--runtime-config=api/beta=true", "runtime-config", "api/beta=true"),
    "networks": ("--service-cluster-ip-range=10.1.0.0/16", "service-cluster-ip-range", "10.1.0.0/16"),
    "ports": ("--service-node-port-range=30000-30010", "service-node-port-range", "30000-30010"),
    "a release": ("--emulated-version=1.30", "emulated-version", "[1.30]"),
    "what follows from it": ("--emulated-version=1.30", "min-compatibility-version", "[1.29]"),
    "sizes": (
        "--watch-cache-sizes=pods#5,deployments.apps#7",
        "watch-cache-sizes",
        "[pods#5,deployments.apps#7]",
    ),
    "a path": ("--data-dir=/d", "data-dir", "/d"),
    "a certificate": (
        f"--tls-sni-cert-key={__file__},{__file__}",
        "tls-sni-cert-key",
        f"[{__file__},{__file__}]",
    ),
    "a password": (
        "--etcd-servers=https://me:secret@a.example.com:2379,https://b.example.com",
        "etcd-servers",
        "[https://CLASSIFIED@a.example.com:2379,https://b.example.com]",
    ),
    "a password with an at sign": (
        "--etcd-servers=https://me:sec@ret@a.example.com:2379,https://you:secret@b.example.com",
        "etcd-servers",
        "[https://CLASSIFIED@a.example.com:2379,https://CLASSIFIED@b.example.com]",
    ),
}


@pytest.mark.parametrize(("given", "name", "text"), GIVEN.values(), ids=GIVEN)
def test_values(given: str, name: str, text: str) -> None:
    assert flag_texts(parse([given]))[name] == text


def test_all_flags_are_told() -> None:
    told = flag_texts(parse([]))
    assert told.keys() == {flag.name.lstrip("-") for flags in SECTIONS.values() for flag in flags}
    assert not [name for name, text in told.items() if text.startswith(("(", "<")) or "MISSING" in text]


def test_flags_that_differ_from_their_defaults() -> None:
    assert changed_flag_texts(parse([])) == {}
    assert changed_flag_texts(parse(["--event-ttl=1h", "--max-watches=7"])) == {"max-watches": "7"}
