"""Converts custom resources by the functions of an extension, with as many objects at once as time allows.

Where no function converts directly, several do, one after the other. Each result is checked like that of a
conversion webhook.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from apiserver.custom_resources.serving.conversion_reviews import WebhookFailure, gvk
from apiserver.custom_resources.serving.conversion_webhooks import (
    REQUEST_BYTES_MAX,
    REQUEST_OBJECTS_MAX,
    ConversionFailed,
)
from apiserver.custom_resources.serving.converted_objects import InvalidObject, with_original_identity
from apiserver.extensions.conversions import Conversion, shortest_path
from apiserver.extensions.hooks import Kind
from apiserver.extensions.host.hooks import ExtensionHook, ExtensionHooks
from apiserver.extensions.host.runner import Failure, HookFailed
from apiserver.meta.vocabulary import Document
from apiserver.metrics.conversion_webhooks import ConversionWebhookMetrics
from apiserver.storage.event_loop_turns import Turn

# How long a function may keep its worker from other calls: a list is converted in batches that take this
# long. No batch takes more than this part of the time limit if objects take equally long.
BATCH_S: Final = 0.05
_PART_OF_TIMEOUT: Final = 0.25


class ConversionFunctions:
    """The functions of an extension that convert the objects of one definition.

    extension, definition: their names. Where the server does not run the extension, each conversion fails.
    """

    def __init__(
        self, hooks: ExtensionHooks, metrics: ConversionWebhookMetrics, extension: str, definition: str
    ) -> None:
        self._hooks, self._metrics = hooks, metrics
        self._extension, self._definition = extension, definition
        # How long each function takes for one object, in seconds, as the last batch took.
        self._seconds: dict[Conversion, float] = {}

    async def convert(self, objects: Sequence[Document], desired: str) -> list[Document]:
        """Returns the documents converted to the apiVersion `desired`. Raises ConversionFailed."""
        with self._metrics.conversion(self._definition, objects[0]["apiVersion"], desired):
            return await self._convert(objects, desired)

    async def _convert(self, objects: Sequence[Document], desired: str) -> list[Document]:
        group, _, target = desired.rpartition("/")
        functions = self._functions()
        by_source: dict[str, list[int]] = {}
        for index, each in enumerate(objects):
            by_source.setdefault(each["apiVersion"], []).append(index)
        converted = list(objects)
        for source, indexes in by_source.items():
            documents = [objects[index] for index in indexes]
            for step in self._path(functions, _version_of(source), target, documents[0]):
                api_version = f"{group}/{step.target}"
                documents = await self._convert_all(functions[step], step, documents, api_version)
            for index, document in zip(indexes, documents, strict=True):
                converted[index] = document
        return converted

    def _functions(self) -> Mapping[Conversion, ExtensionHook]:
        """Returns the functions by what they convert. New code of the extension may have others."""
        return {
            Conversion(each.info.options["source"], each.info.options["target"]): each
            for each in self._hooks.of_kind(Kind.CONVERT)
            if each.extension == self._extension and each.info.options["resource"] == self._definition
        }

    def _path(
        self, functions: Mapping[Conversion, ExtensionHook], source: str, target: str, document: Document
    ) -> Sequence[Conversion]:
        path = shortest_path(functions, source, target)
        if path is None:
            has_it = any(each.info.name == self._extension for each in self._hooks.runners)
            why = (
                f"has no function that converts {self._definition} from {source} to {target}"
                if has_it
                else "does not run in this server (--extension)"
            )
            raise _failed(document, f'extension "{self._extension}" {why}')
        return path

    async def _convert_all(
        self, hook: ExtensionHook, step: Conversion, documents: Sequence[Document], desired: str
    ) -> list[Document]:
        """Returns documents converted by one function, in batches."""
        converted: list[Document] = []
        while len(converted) < len(documents):
            batch = _next_batch(documents, len(converted), self._objects_max(hook, step))
            began = time.perf_counter()
            try:
                given = await hook.call({"objects": batch.encoded, "desiredAPIVersion": desired})
            except HookFailed as error:
                if error.failure is Failure.TIMEOUT:
                    self._seconds[step] = hook.info.timeout_s  # Next time, the batches are smaller.
                self._metrics.called(time.perf_counter() - began, WebhookFailure.CALL)
                raise _failed(documents[0], str(error)) from None
            took_s = time.perf_counter() - began
            self._seconds[step] = took_s / len(batch.originals)
            converted += await self._checked(hook, batch, given.get("objects"), desired, took_s)
        return converted

    def _objects_max(self, hook: ExtensionHook, step: Conversion) -> int:
        """Returns how many objects a function gets at once. Of an unknown function, the first is alone."""
        seconds = self._seconds.get(step)
        if seconds is None:
            return 1
        batch_s = min(BATCH_S, hook.info.timeout_s * _PART_OF_TIMEOUT)
        return max(1, min(REQUEST_OBJECTS_MAX, int(batch_s / max(seconds, 1e-9))))

    async def _checked(
        self, hook: ExtensionHook, batch: _Batch, given: Any, desired: str, took_s: float
    ) -> list[Document]:
        """Returns what a function has returned, with the identities of the originals. Raises
        ConversionFailed.
        """
        originals = batch.originals

        def refused(failure: WebhookFailure, why: str) -> ConversionFailed:
            self._metrics.called(took_s, failure)
            return _failed(originals[0], f'extension "{hook.extension}": {hook.info} returned {why}')

        if not isinstance(given, list):
            raise refused(WebhookFailure.MALFORMED_RESPONSE, "no list of objects")
        if len(given) != len(originals):
            text = f"{len(given)} objects, expected {len(originals)}"
            raise refused(WebhookFailure.PARTIAL_RESPONSE, text)
        checked, turn = [], Turn()
        for original, sent, each in zip(originals, batch.sent, given, strict=True):
            if turn.is_over():
                await turn.next()
            try:
                checked.append(with_original_identity(original, each, desired, sent))
            except InvalidObject as error:
                text = f"an invalid object for {_place(original)}: {error}"
                raise refused(WebhookFailure.INVALID_OBJECT, text) from None
        self._metrics.called(took_s)
        return checked


def _failed(document: Document, why: str) -> ConversionFailed:
    return ConversionFailed(f"conversion of {gvk(document)} failed: {why}")


def _version_of(api_version: str) -> str:
    return api_version.rpartition("/")[2]


def _place(document: Document) -> str:
    meta = document["metadata"]
    return "/".join(filter(None, (meta.get("namespace"), meta.get("name"))))


class _Batch(NamedTuple):
    """Documents that a function gets together. sent: their metadata as the function gets it."""

    originals: Sequence[Document]
    sent: Sequence[Document]
    encoded: Sequence[orjson.Fragment]


def _next_batch(documents: Sequence[Document], begin: int, objects_max: int) -> _Batch:
    """Returns the next documents, of which there is at least one. Raises ConversionFailed.

    They are sent without managedFields, which are half of many objects, and stay as they are.
    """
    sent: list[Document] = []
    fragments: list[orjson.Fragment] = []
    size = 0
    for document in itertools.islice(documents, begin, begin + objects_max):
        meta = document["metadata"]
        if "managedFields" in meta:
            meta = meta.copy()
            del meta["managedFields"]
        try:
            encoded = orjson.dumps({**document, "metadata": meta})
        except orjson.JSONEncodeError:
            raise ConversionFailed("an object is nested too deeply to be converted") from None
        size += len(encoded)
        if sent and size > REQUEST_BYTES_MAX:
            break
        sent.append(meta)
        fragments.append(orjson.Fragment(encoded))
    return _Batch(documents[begin : begin + len(sent)], sent, fragments)
