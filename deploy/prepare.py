"""Makes the files that replicas of a server share. Run it again at any time: it keeps valid files.

    DIRECTORY/authority/   the authority's key, and admin.kubeconfig; for administrators
    DIRECTORY/serving/     ca.crt, tls.crt, tls.key, sa.key, tokens.csv; for the servers
    DIRECTORY/scrape/      ca.crt, token; for Prometheus

Replicas on one etcd share keys without it, too: generated ones, which lie in etcd. With it the keys of the
authority and of service accounts stay outside, the certificate has the names that clients use, and Prometheus
has a token. All replicas have to get these files, or none: they do not start beside others with other keys.
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

from apiserver.app.serving import pki

# The group that may read /metrics and nothing else.
SCRAPER: Final = ("prometheus", "prometheus", "system:monitoring")
OWNER_ONLY: Final = 0o600
# Only Prometheus has the volume, and it runs as another user.
EVERYBODY: Final = 0o644


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the files that replicas of a server share.")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--url", required=True, help="the URL at which administrators reach the server")
    parser.add_argument(
        "--name", action="append", default=[], help="a name or address of a server; may be repeated"
    )
    parser.add_argument("--print-kubeconfig", action="store_true", help="print admin.kubeconfig, too")
    given = parser.parse_args()
    directory: Path = given.directory
    authority, serving, scrape = (directory / name for name in ("authority", "serving", "scrape"))
    for each in (serving, scrape):
        each.mkdir(parents=True, exist_ok=True)

    try:
        made = pki.ensure(authority, given.name)
    except pki.UnusableFile as error:
        sys.exit(f"prepare: {error}")
    kubeconfig = authority / "admin.kubeconfig"
    pki.write(kubeconfig, pki.admin_kubeconfig(given.url, made, made.ca_cert.read_bytes()))
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
    """Returns the lines of a token file with the present token of Prometheus."""
    user, uid, groups = SCRAPER
    rows = [row for row in csv.reader(io.StringIO(tokens)) if row[1:2] != [user]]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([*rows, [token, user, uid, groups]])
    return text.getvalue()


def text_of(path: Path) -> str:
    """Returns the text of a file; empty if there is none."""
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
