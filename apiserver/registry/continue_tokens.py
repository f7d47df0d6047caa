"""Continue tokens of lists that are read in chunks (rows K31, K34, K35). Pure."""

from __future__ import annotations

from apiserver.meta.errors import BadRequest, Expired
from apiserver.storage.continue_token import ContinueToken, InvalidToken, decode_token
from apiserver.storage.interface import MOST_RECENT, KeyRange, ReadAt
from apiserver.wire import json_text


def continue_token(revision: int, next_key: str, folder: str, meta_version: str) -> str:
    """Returns the token for the next chunk. next_key: its first key. folder: the prefix of all listed
    keys.
    """
    return ContinueToken(revision, next_key.removeprefix(folder)).encode(meta_version)


def decode_position(keys: KeyRange, text: str, meta_version: str) -> tuple[KeyRange, ReadAt]:
    """Returns the keys and the revision in a continue token. Raises BadRequest."""
    try:
        found = decode_token(text, meta_version, json_text.load)
    except InvalidToken as error:
        raise BadRequest(f"invalid continue token: {error}") from None
    at = ReadAt.exactly(found.revision) if found.revision else MOST_RECENT
    return KeyRange(keys.start + found.start, keys.end), at


def expired_error(next_key: str, folder: str, meta_version: str, *, is_continued: bool) -> Expired:
    """Returns the error for a compacted revision, with a token that continues at the latest one (K31,
    K35).
    """
    if not is_continued:
        return Expired("The resourceVersion for the provided list is too old.")
    error = Expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a "
        "new list without it, or continue with the token in this response; then objects that were created, "
        "changed or deleted since the first chunk may show up or be missing."
    )
    error.list_meta["continue"] = continue_token(0, next_key, folder, meta_version)
    return error


def token_at_revision(text: str, revision: int, meta_version: str) -> str:
    """Returns a token that continues where another does, at a given revision.

    text: a valid token.
    """
    return decode_token(text, meta_version)._replace(revision=revision).encode(meta_version)
