"""The server under attack, and the users who attack it or suffer."""

from __future__ import annotations

import json
import ssl
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from tests.support.rbac import RBAC, binding, rule

VICTIMS: Final = "victims"  # the namespace of those who suffer
ATTACKED: Final = "attacked"  # the namespace in which attackers may do something
GROUP: Final = "attack.example.com"  # the API group in which `definer` may do anything

ADMIN: Final = "admin"  # of system:masters: prepares, and does nothing while an attack lasts
NOBODY: Final = "nobody"  # has no role
READER: Final = "reader"  # may read everything in ATTACKED
WRITER: Final = "writer"  # may do everything in ATTACKED
DEFINER: Final = "definer"  # may also write definitions, and custom resources of GROUP
VICTIM_USERS: Final = ("victim-get", "victim-write", "victim-lease")
# Users without a role, who exist to be many.
CROWD: Final = tuple(f"crowd-{number}" for number in range(200))

USERS: Final = (ADMIN, NOBODY, READER, WRITER, DEFINER, *VICTIM_USERS, *CROWD)

# Attackers and victims have addresses of their own, as they would have in the world: what the server grants
# to one address, the attackers cannot use up for the victims. All of 127.0.0.0/8 is this machine, on Linux.
VICTIM_ADDRESS: Final = "127.0.0.2"
PROBE_ADDRESS: Final = "127.0.0.3"
ATTACKER_ADDRESS: Final = "127.0.1.{}"

CONFIG_MAPS: Final = f"/api/v1/namespaces/{ATTACKED}/configmaps"
SECRETS: Final = f"/api/v1/namespaces/{ATTACKED}/secrets"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BINDINGS: Final = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ATTACKED}/rolebindings"


def token(user: str) -> str:
    return f"{user}-token"


def token_file() -> str:
    """The content of a file for `--token-auth-file`."""
    return "".join(
        f'{token(user)},{user},uid-{user},"{"system:masters" if user == ADMIN else "people"}"\n'
        for user in USERS
    )


def tls_context() -> ssl.SSLContext:
    """A context that verifies nothing: the server is known."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@dataclass(frozen=True)
class Site:
    """Where the server is; handed to the other processes as an argument.

    pid: the process that serves. has_loop: whether its first thread runs an event loop.
    scale: attacks multiply their numbers by it.
    """

    host: str
    port: int
    pid: int
    has_loop: bool = True
    scale: int = 1

    def to_argument(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of_argument(cls, text: str) -> Self:
        return cls(**json.loads(text))


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": data or {},
    }


def permissions() -> list[tuple[str, dict[str, Any]]]:
    """Path and document of what gives the users their rights, in the order in which to post them."""
    definitions = [rule("*", "*", group="apiextensions.k8s.io"), rule("*", "*", group=GROUP)]
    made: list[tuple[str, dict[str, Any]]] = [
        ("/api/v1/namespaces", {"metadata": {"name": namespace}}) for namespace in (VICTIMS, ATTACKED)
    ]

    def allow(namespace: str, role: str, verbs: str, *users: str) -> None:
        where, rules = f"{RBAC}/namespaces/{namespace}", [rule(verbs, "*", group="*")]
        made.append((f"{where}/roles", {"metadata": {"name": role}, "rules": rules}))
        made.append((f"{where}/rolebindings", binding(role, role, *users, kind="Role")))

    allow(VICTIMS, "victim", "*", *VICTIM_USERS)
    allow(ATTACKED, "reader", "get list watch", READER)
    allow(ATTACKED, "writer", "*", WRITER, DEFINER)
    made.extend(
        (
            (f"{RBAC}/clusterroles", {"metadata": {"name": DEFINER}, "rules": definitions}),
            (f"{RBAC}/clusterrolebindings", binding(DEFINER, DEFINER, DEFINER)),
            (f"/api/v1/namespaces/{VICTIMS}/configmaps", config_map("victim", {"n": "0"})),
            (
                f"/apis/coordination.k8s.io/v1/namespaces/{VICTIMS}/leases",
                {
                    "metadata": {"name": "victim"},
                    "spec": {"holderIdentity": "victim", "leaseDurationSeconds": 15},
                },
            ),
        )
    )
    return made
