"""Asks all workers of a server, each of which counts its own requests."""

from __future__ import annotations

from http import HTTPStatus
from time import monotonic
from typing import Final

from apiserver.cli.api_client import ApiClient, RequestFailed
from apiserver.cli.flag_values import WORKERS_MAX
from apiserver.cli.server_options import ServerOptions
from apiserver.meta.vocabulary import Document

# How often a server with workers is asked, for each of them, until all have answered.
ASKED_PER_WORKER: Final = 40
# How long they have to respond.
ASKED_WITHIN_S: Final = 60
_SHOWN_LENGTH_MAX: Final = 60


def ask_workers(options: ServerOptions, command: str, path: str, list_name: str) -> list[Document]:
    """Returns the answer of each worker. Raises RequestFailed.

    command: the name of the subcommand, for the user agent. list_name: the field of an answer with its rows.
    """
    first = _asked_once(options, command, path, list_name)
    workers = _workers(first, path)
    answers = {first.get("worker"): first}
    # Each connection leads to any one of them.
    end = monotonic() + ASKED_WITHIN_S
    for _ in range(ASKED_PER_WORKER * (workers - 1)):
        if len(answers) >= workers or monotonic() > end:
            break
        answer = _asked_once(options, command, path, list_name)
        answers[answer.get("worker")] = answer
    if len(answers) < workers:
        raise RequestFailed(f"only {len(answers)} of {workers} workers have responded")
    return list(answers.values())


def invalid_response(path: str, reason: str = "") -> RequestFailed:
    return RequestFailed(f"the server's response to {path} is not valid{f': {reason}' if reason else ''}")


def _workers(answer: Document, path: str) -> int:
    """Returns how many processes serve the port, one if the server does not say. Raises RequestFailed."""
    workers = answer.get("workers", 1)
    if type(workers) is not int or not 1 <= workers <= WORKERS_MAX:
        raise invalid_response(
            path, f"workers: {str(workers)[:_SHOWN_LENGTH_MAX]} is not a number from 1 to {WORKERS_MAX}"
        )
    return workers


def _asked_once(options: ServerOptions, command: str, path: str, list_name: str) -> Document:
    """Ask one process of the server. Raises RequestFailed."""
    client = ApiClient(options, command)
    try:
        answer: Document = client.get(path)
    except RequestFailed as error:
        if error.status == HTTPStatus.NOT_FOUND:
            raise RequestFailed(f"the server has no {path}", error.status) from None
        raise
    finally:
        client.close()
    if not isinstance(answer.get(list_name), list) or not isinstance(answer.get("worker", ""), str):
        raise invalid_response(path)
    return answer
