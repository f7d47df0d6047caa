"""Lists in chunks: the tokens by which a client goes on. Pure. Rows K31, K34, K35."""

from __future__ import annotations

from apiserver.errors import BadRequest, Expired
from storage.continue_token import ContinueToken, InvalidToken, decode_token
from storage.interface import MOST_RECENT, KeyRange, ReadAt


def token(revision: int, next_key: str, folder: str, meta_version: str) -> str:
    """What a client goes on with at `next_key`. folder: where all keys of the list are."""
    return ContinueToken(revision, next_key.removeprefix(folder)).encode(meta_version)


def continued(keys: KeyRange, text: str, meta_version: str) -> tuple[KeyRange, ReadAt]:
    """Where and when the chunk that a token asks for begins. Raises BadRequest."""
    try:
        found = decode_token(text, meta_version)
    except InvalidToken as error:
        raise BadRequest(f"invalid continue token: {error}") from None
    at = ReadAt.exactly(found.revision) if found.revision else MOST_RECENT
    return KeyRange(keys.start + found.start, keys.end), at


def expired_error(next_key: str, folder: str, meta_version: str, *, is_continued: bool) -> Expired:
    """Rows K31, K35: a token whose revision is gone comes back as one to go on without it."""
    if not is_continued:
        return Expired("The resourceVersion for the provided list is too old.")
    error = Expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a "
        "new list without it, or go on with the token in this answer; then objects that were created, "
        "changed or deleted since the first chunk may show up or be missing."
    )
    error.list_meta["continue"] = token(0, next_key, folder, meta_version)
    return error
