"""The flags of the console."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apiserver.cli.flag import flags_of, option
from apiserver.cli.flag_values import PATH, SWITCH, TEXT, TEXTS


@dataclass(frozen=True, slots=True, repr=False)
class ConsoleOptions:
    """The options of the console."""

    # None: it is served unless the store is etcd.
    console: bool | None = option(
        None,
        SWITCH,
        "If true, the server serves its console, a web page, at /console/.",
        default="true without --etcd-servers",
    )
    console_read_only: bool = option(
        False,
        SWITCH,
        "If true, the console does not offer to change anything. The flag does not take rights from users: "
        "what their credentials allow, they can still do with other clients.",
    )
    console_oidc_client_id: str = option(
        "",
        TEXT,
        "The client ID with which users log in to the console at the first OIDC issuer that the server "
        "accepts tokens from. The issuer must allow this client to redirect to "
        "https://HOST:PORT/console/.",
        default="the first audience of the issuer",
    )
    console_oidc_client_secret_file: Path | None = option(
        None,
        PATH,
        "A file that contains the secret of the client in --console-oidc-client-id. Public clients need "
        "none: the console always uses PKCE.",
    )
    console_oidc_scopes: tuple[str, ...] = option(
        (),
        TEXTS,
        "A comma-separated list of the scopes that the console requests from the OIDC issuer.",
        default="openid, and profile, email, groups and offline_access if the issuer lists them",
        repeats=True,
    )


FLAGS: Final = flags_of(ConsoleOptions)
