"""Messages between the supervisor and its workers."""

from __future__ import annotations

import itertools
import selectors
import socket
from collections.abc import Iterator

import pytest

from apiserver.app.workers.channel import Channel
from apiserver.app.workers.messages import MessageKind, MessageReader, encode_message

MESSAGES = [(MessageKind.HELLO, b""), (MessageKind.OWN_METRICS, b"a_total 1\n"), (MessageKind.READY, b"")]


@pytest.mark.parametrize("size", [1, 2, 5, 7, 1000])
def test_messages_are_complete_however_their_bytes_arrive(size: int) -> None:
    reader, sent = MessageReader(), b"".join(itertools.starmap(encode_message, MESSAGES))
    received = list[tuple[MessageKind, bytes]]()
    for at in range(0, len(sent), size):
        reader.feed(sent[at : at + size])
        received += reader.messages()
    assert received == MESSAGES


@pytest.fixture
def pair() -> Iterator[tuple[Channel, socket.socket, selectors.BaseSelector]]:
    ours, theirs = socket.socketpair()
    with selectors.DefaultSelector() as selector, theirs:
        channel = Channel(ours, selector, "owner")
        yield channel, theirs, selector
        channel.close()


def test_what_does_not_fit_is_sent_when_the_socket_takes_more(
    pair: tuple[Channel, socket.socket, selectors.BaseSelector],
) -> None:
    channel, theirs, selector = pair
    text = b"x" * 10_000_000
    channel.send(MessageKind.ALL_METRICS, text)
    reader, received = MessageReader(), list[tuple[MessageKind, bytes]]()
    while not received:
        reader.feed(theirs.recv(1_000_000))
        received += reader.messages()
        for key, events in selector.select(0):
            assert (key.data, events) == ("owner", selectors.EVENT_WRITE)
            channel.flush()
    assert received == [(MessageKind.ALL_METRICS, text)]
    assert not selector.select(0), "nothing is left to be sent"


def test_last_messages_of_a_process_that_is_gone_are_received(
    pair: tuple[Channel, socket.socket, selectors.BaseSelector],
) -> None:
    channel, theirs, selector = pair
    theirs.sendall(encode_message(MessageKind.CANNOT_START, b"why"))
    theirs.close()
    assert list(channel.receive()) == [(MessageKind.CANNOT_START, b"why")]
    assert list(channel.receive()) == []
    channel.send(MessageKind.STOP)
    assert not selector.get_map(), "a connection that has ended is not watched"
