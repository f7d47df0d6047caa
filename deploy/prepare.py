"""Creates the files that the replicas of a server share. You can run this script again: it keeps valid files.

    DIRECTORY/authority/   for administrators: the key of the certificate authority, and admin.kubeconfig
    DIRECTORY/serving/     for the servers: ca.crt, tls.crt, tls.key, sa.key, tokens.csv
    DIRECTORY/scrape/      for Prometheus: ca.crt, token

Without this script, replicas generate keys and share them in etcd. The private keys that this script creates
are not in etcd. The serving certificate that this script creates contains the names that clients use, and
Prometheus has a token. Give these files to all replicas or to no replica, because a replica with different
keys refuses to start while other replicas run.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import os
import secrets
import sys
from pathlib import Path
from typing import Final

from apiserver.app.serving import pki, pki_files

# Members of this group can read metrics and health checks, but no objects.
SCRAPER: Final = ("prometheus", "prometheus", "system:monitoring")
OWNER_ONLY: Final = 0o600
# Prometheus runs as another user. Only Prometheus mounts the volume with these files.
EVERYBODY: Final = 0o644


def main() -> None:
    parser = argparse.ArgumentParser(description="Creates the files that the replicas of a server share.")
    parser.add_argument("--directory", type=Path, required=True, help="the directory for the files")
    parser.add_argument("--url", required=True, help="the URL of the server in admin.kubeconfig")
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        help="a name or address in the serving certificate; you can repeat this option",
    )
    parser.add_argument("--print-kubeconfig", action="store_true", help="also print admin.kubeconfig")
    given = parser.parse_args()
    directory: Path = given.directory
    authority, serving, scrape = (directory / name for name in ("authority", "serving", "scrape"))
    for each in (serving, scrape):
        each.mkdir(parents=True, exist_ok=True)

    try:
        made = pki.ensure(authority, given.name)
    except pki_files.UnusableFile as error:
        sys.exit(f"prepare: {error}")
    kubeconfig = authority / "admin.kubeconfig"
    pki_files.write(kubeconfig, pki_files.admin_kubeconfig(given.url, made, made.ca_cert.read_bytes()))
    for source, name in (
        (made.ca_cert, "ca.crt"),
        (made.serving_cert, "tls.crt"),
        (made.serving_key, "tls.key"),
        (made.service_account_key, "sa.key"),
    ):
        write(serving / name, source.read_bytes(), OWNER_ONLY)

    token = text_of(scrape / "token").strip() or secrets.token_urlsafe(32)
    write(scrape / "ca.crt", made.ca_cert.read_bytes(), EVERYBODY)
    write(scrape / "token", token.encode(), EVERYBODY)
    tokens = with_scraper(text_of(serving / "tokens.csv"), token)
    write(serving / "tokens.csv", tokens.encode(), OWNER_ONLY)
    if given.print_kubeconfig:
        print(kubeconfig.read_text(), end="")


def with_scraper(tokens: str, token: str) -> str:
    """Returns the lines of a token file, with the current token of Prometheus."""
    user, uid, groups = SCRAPER
    rows = [row for row in csv.reader(io.StringIO(tokens)) if row[1:2] != [user]]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([*rows, [token, user, uid, groups]])
    return text.getvalue()


def text_of(path: Path) -> str:
    """Returns the text of a file, or an empty text if the file does not exist."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_text()
    return ""


def write(path: Path, content: bytes, mode: int) -> None:
    """Write a file atomically."""
    temporary = path.with_name(f".{path.name}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
    temporary.replace(path)


if __name__ == "__main__":
    main()
