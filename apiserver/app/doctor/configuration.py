"""Checks that the server could start with a configuration: flags, files, keys and the data directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from apiserver.app.doctor import configured_files
from apiserver.app.doctor.report import Finding, error, note, ok
from apiserver.auth.authn.service_account_keys import UnusableKey, read_private_key, read_public_keys
from apiserver.auth.authn.token_file import TokenFileError, read_token_file
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.bounded_files import read_bounded
from apiserver.cli.command_line import parse
from apiserver.cli.config import Config
from apiserver.cli.flag_values import MEMORY
from apiserver.webhooks.kubeconfig import read_kubeconfig
from apiserver.wire.configuration_fields import InvalidConfiguration

_KUBECONFIGS: Final = ("authentication_token_webhook_config_file", "authorization_webhook_config_file")


class ConfigurationFacts(NamedTuple):
    """What loading a configuration has shown.

    problem: why it is not valid, and hint, what may have been meant; empty if it is valid.
    warnings: of the configuration. store: where objects are kept.
    is_writable: whether this user can write to the data directory, data_dir.
    """

    problem: str = ""
    hint: str = ""
    warnings: Sequence[str] = ()
    store: str = ""
    data_dir: Path = Path()
    is_writable: bool = True


# What a disk or a network file system shows that does not respond.
HANGING: Final = ConfigurationFacts(
    "the flags and their files cannot be read: a file does not respond",
    ", and check for a disk, a network file system or a device that does not respond.",
)


def load(arguments: Sequence[str]) -> tuple[Config | None, ConfigurationFacts]:
    """Reads a command line of the server and its files, as the server does; None if they are not valid."""
    try:
        config = parse(arguments)
    except UsageError as failure:
        return None, ConfigurationFacts(str(failure), failure.hint)
    except OSError as failure:  # of a directory that this user cannot look into
        return None, ConfigurationFacts(f"{failure.filename}: {failure.strerror or failure}")
    data_dir = config.serving.data_dir
    if config.storage.etcd_servers:
        store = config.storage.etcd_name
    elif config.storage.storage_backend == MEMORY:
        store = "in memory"
    else:
        store = f"embedded in {data_dir / 'store'}"
    return config, ConfigurationFacts(
        warnings=config.warnings,
        store=store,
        data_dir=data_dir,
        is_writable=configured_files.is_writable(data_dir),
    )


def unusable_files(config: Config) -> Iterator[str]:
    """Yields why files cannot be used that the server reads only when it starts."""
    options = config.authentication
    readers: list[tuple[Path | None, str, Callable[[Path], Any]]] = [
        (
            options.service_account_signing_key_file,
            "--service-account-signing-key-file",
            lambda path: read_private_key(read_bounded(path)),
        ),
        *(
            (path, "--service-account-key-file", lambda path: read_public_keys(read_bounded(path)))
            for path in options.service_account_key_file
        ),
        (options.token_auth_file, "--token-auth-file", read_token_file),
        *(
            (
                config.option(name),
                f"--{name.replace('_', '-')}",
                lambda path: read_kubeconfig(path, read_bounded).current(),
            )
            for name in _KUBECONFIGS
        ),
    ]
    for path, flag, read in readers:
        if path is None:
            continue
        try:
            read(path)
        except OSError as failure:
            yield f"{flag}: {path}: {failure.strerror or failure}"
        except (UnusableKey, TokenFileError, InvalidConfiguration) as failure:
            yield f"{flag}: {path}: {failure}"


def examine(facts: ConfigurationFacts, unusable: Sequence[str] = ()) -> Iterator[Finding]:
    """Yields findings about a configuration. unusable: why files cannot be used, see `unusable_files`."""
    if facts.problem:
        # A hint continues the message: `; did you mean --x? See …`, or `. See …`.
        yield error(facts.problem, f"Correct the flag or the file{facts.hint or '.'}")
        return
    for each in unusable:
        yield error(each, "Correct the file. The server cannot start with this file.")
    if not facts.is_writable:
        yield error(
            f"this user cannot write to the data directory {facts.data_dir}",
            "Change the owner to the user of the server, set --data-dir, or run this command as the "
            "server's user.",
        )
    for each in facts.warnings:
        yield note(each, "Remove the flag, or see the flags reference.")
    if not unusable:
        yield ok(f"the configuration is valid; the store is {facts.store}")
