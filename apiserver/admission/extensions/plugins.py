"""The two admission plugins that call functions of extensions: one to change a write, one to validate it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from apiserver.admission.chain import AdmissionAttributes, FunctionChange, Operation, Plugin
from apiserver.admission.dispatchers import NOTHING, ReviewOutcome, call_in_turn, call_together
from apiserver.admission.extensions import answers
from apiserver.admission.extensions.answers import FunctionAnswer
from apiserver.admission.extensions.functions import AdmissionFunction
from apiserver.admission.listers import Lister, refused
from apiserver.admission.patched_documents import InvalidDocument, checked
from apiserver.admission.responses import AdmissionDenied, InvalidAnswer
from apiserver.admission.reviewed_write import EquivalentResources, ReviewedWrite
from apiserver.admission.selection import Conditions, namespace_labels
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.extensions.hooks import Kind, OnError
from apiserver.extensions.host.hooks import ExtensionHook, ExtensionHooks
from apiserver.extensions.host.runner import HookFailed
from apiserver.load.size_class import size_class
from apiserver.meta.brand import Brand
from apiserver.meta.errors import ApiError, BadRequest, InternalError, MadeInvalid
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry.invalidating_changes import InvalidField
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.storage.interface import VALUE_BYTES_MAX

if TYPE_CHECKING:
    from apiserver.extensions.host.inline import InlineFunction

log = logging.getLogger(__name__)

_ADMISSION_GROUP: Final = "admission"
# The size to which a function may make an object grow: the store takes `VALUE_BYTES_MAX`. The server adds the
# identity, times and owners of fields, which rarely take more than the rest.
OBJECT_BYTES_MAX: Final = VALUE_BYTES_MAX - 16 * 1024
# More errors would not be read.
_FIELDS_SHOWN: Final = 3
# The arguments that are made of the request.
_OF_REQUEST: Final = frozenset({"request", "user", "dry_run"})


class ExtensionDependencies(NamedTuple):
    """The collaborators that both plugins need.

    namespaces: for conditions about the namespace of a write, and for functions that take its labels.
    """

    extensions: ExtensionHooks
    served: ServedTable
    equivalents: EquivalentResources
    namespaces: Lister
    authorize: AuthorizationChain
    brand: Brand


class MatchedFunction(NamedTuple):
    """A function whose rules match a kind of write.

    number: its index among all functions of the plugin. resource: the one under which it sees the write.
    """

    number: int
    resource: ServedResource


class ExtensionPlugin(Plugin):
    """The common base of both plugins.

    kind: of the functions that it calls. audit_step, latency_layer: as in annotations of audit events.
    """

    kind: Kind
    audit_step = latency_layer = ""

    def __init__(self, dependencies: ExtensionDependencies) -> None:
        """Raises InvalidExtension."""
        self._with = dependencies
        self._functions: Sequence[AdmissionFunction] = ()
        # The functions by the kinds of writes that they match, while this table is served.
        self._table = dependencies.served.current
        self._matched: dict[tuple[object, str, Operation], Mapping[AdmissionFunction, MatchedFunction]] = {}
        self.configurations = (dependencies.extensions,)
        dependencies.extensions.call_on_change(self._find_functions)
        self._meta_group = dependencies.brand.meta_group
        group = dependencies.brand.group(_ADMISSION_GROUP)
        self.annotation_prefix = f"{self.audit_step}.extension.{group}/"

    def _find_functions(self) -> None:
        """Find the functions, also after a reload, which has compiled their conditions before."""
        self._functions = [AdmissionFunction(each) for each in self._with.extensions.of_kind(self.kind)]
        self._matched = {}

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        same = {resource, *(each.group_resource for each in self._with.equivalents.of(resource))}
        return any(each.may_concern(same, subresource, operation.value) for each in self._functions)

    # ---- which functions are called

    def _functions_of(self, write: ReviewedWrite) -> Mapping[AdmissionFunction, MatchedFunction]:
        """Returns the functions whose rules match a write, in their order.

        Their rules name neither namespaces nor objects, so that the answer holds for all writes of a kind.
        """
        attributes, table = write.attributes, self._with.served.current
        if table is not self._table:
            self._table, self._matched = table, {}
        key = attributes.resource, attributes.subresource, attributes.operation
        found = self._matched.get(key)
        if found is None:
            found = self._matched[key] = {
                function: MatchedFunction(index, resource)
                for index, function in enumerate(self._functions)
                if (resource := write.matching_resource(function.rules(table), with_equivalents=True))
            }
        return found

    async def _is_called(
        self, function: AdmissionFunction, write: ReviewedWrite, resource: ServedResource
    ) -> bool:
        """Whether the condition of a function, if it has one, selects a write.

        Raises HookFailed or Forbidden if it cannot be evaluated, as `on_error` says, and BadRequest for a
        dry run that would have side effects.
        """
        if function.conditions and not await self._meets_condition(function, write, resource):
            return False
        if function.has_side_effects and not write.attributes.allows_side_effects:
            hook = function.hook
            raise BadRequest(f'extension "{hook.extension}": {hook.info.name} does not support dry run')
        return True

    async def _meets_condition(
        self, function: AdmissionFunction, write: ReviewedWrite, resource: ServedResource
    ) -> bool:
        namespaces = self._with.namespaces if function.sees_namespace else None
        conditions = Conditions(function.conditions, self._with.authorize, namespaces)
        outcome = await conditions.outcome(write, resource, write.description(resource, self._meta_group))
        if not outcome.failure:
            return not outcome.is_false
        failed = function.hook.invalid(f"cannot be selected by where: {outcome.failure}")
        if function.hook.info.on_error is OnError.FAIL:
            raise refused(write.attributes, write.new, str(failed))
        raise failed

    # ---- calling one

    async def _called_in_worker(
        self, hook: ExtensionHook, resource: ServedResource, write: ReviewedWrite
    ) -> Mapping[str, Any]:
        """Call a function in its process. Returns its result; raises as `_called_inline`."""
        attributes, wants = write.attributes, hook.info.wants
        remaining_s = None if attributes.deadline is None else attributes.remaining_s()
        call = await self._call_without_objects(wants, write, resource) if wants else {}
        await _add_objects(call, wants, write, resource)
        return await hook.call(call, remaining_s, waiting=attributes.without_slot())

    async def _called_inline(
        self, function: InlineFunction, hook: ExtensionHook, resource: ServedResource, write: ReviewedWrite
    ) -> Mapping[str, Any]:
        """Call a function on the object itself, or on a copy if that is shared or has another version.

        Returns its result. The object is then as it was, even if the function has changed it. Raises
        HookFailed, and ApiError if the call is not possible for a reason outside the function.
        """
        wants = function.info.wants
        call = await self._call_without_objects(wants, write, resource) if wants else {}
        is_deletion = write.new is None
        subject = write.old if is_deletion else write.new
        if subject is None:  # Of a collection whose objects are not known.
            encoded = b"null"
        else:
            encoded = await write.encoded(subject, resource, is_old=is_deletion)
        is_copy = is_deletion or resource is not write.shown_as_is
        if is_copy:
            subject = await write.offload.run_begun(size_class(len(encoded)), orjson.loads, encoded)
        if is_deletion:
            call["oldObject"] = subject
        else:
            call["object"] = subject
            if "old" in wants and write.old is not None:
                call["oldObject"] = orjson.loads(await write.encoded(write.old, resource, is_old=True))
        return _call_now(function, hook, call, encoded, write, is_copy=is_copy)

    def _answer(self, hook: ExtensionHook, result: Mapping[str, Any], write: ReviewedWrite) -> FunctionAnswer:
        """Returns the answer in the result of a function. Raises HookFailed if there is none."""
        try:
            answer = answers.read(result)
        except InvalidAnswer as invalid:
            raise hook.invalid(f"has an invalid result: {invalid}") from None
        for key, value in answer.audit_annotations.items():
            write.attributes.annotate(f"{hook.extension}/{key}", value)
        return answer

    async def _call_without_objects(
        self, wants: Collection[str], write: ReviewedWrite, resource: ServedResource
    ) -> dict[str, Any]:
        """Returns a call with what a function takes beside objects. wants: its arguments."""
        call: dict[str, Any] = {}
        if not _OF_REQUEST.isdisjoint(wants):
            description = write.description(resource, self._meta_group)
            call["request"] = {"uid": str(uuid.uuid4()), **description}
        if "namespace_labels" in wants:
            call["namespaceLabels"] = await namespace_labels(write, self._with.namespaces) or {}
        return call

    def _note_time(self, attributes: AdmissionAttributes, seconds: float, *, is_own: bool) -> None:
        """Note how long functions took. is_own: whether that is the server's own time, as they ran in it."""
        if not is_own:
            attributes.waited(self.latency_layer, seconds)
        elif attributes.audit is not None:
            attributes.audit.took(self.latency_layer, seconds)

    def _failed(
        self, failed: HookFailed, hook: ExtensionHook, write: ReviewedWrite, turn: str
    ) -> ReviewOutcome:
        """Returns what a failure means for the write. turn: that of the call, for the audit event."""
        if hook.info.on_error is OnError.FAIL:
            return ReviewOutcome((), InternalError.of(str(failed)))
        hook.ignored()
        write.attributes.annotate(
            f"failed-open.{self.annotation_prefix}{turn}",
            f"{hook.extension}/{hook.info.name}",
        )
        return ReviewOutcome([str(failed)] if hook.info.on_error is OnError.WARN else ())


def _call_now(
    function: InlineFunction,
    hook: ExtensionHook,
    call: Mapping[str, Any],
    encoded: bytes,
    write: ReviewedWrite,
    *,
    is_copy: bool = False,
) -> Mapping[str, Any]:
    """Call a function on the event loop, and return its result.

    encoded: the object that it gets first. is_copy: whether that is a copy, rather than the object of the
    write. Raises HookFailed, and Timeout if the client waits no longer.
    """
    if write.attributes.deadline is not None:
        write.attributes.remaining_s()
    subject = call.get("object")
    meta = None if is_copy or subject is None else subject["metadata"]
    is_intact, began = False, perf_counter()
    try:
        result, is_intact = function.call(call, encoded)
        # What the function has put into its result may be shared with others, too.
        decoded: Mapping[str, Any] = orjson.loads(orjson.dumps(result)) if result else result
        return decoded
    except HookFailed as failed:
        raise hook.failed(failed) from None
    finally:
        write.inline_s += perf_counter() - began
        if meta is not None and not is_intact and not _is_encoded(subject, encoded):
            before = orjson.loads(encoded)
            # The write path holds a reference to this dict.
            meta.clear()
            meta.update(before["metadata"])
            before["metadata"] = meta
            write.replace(before)


def _is_encoded(document: Document | None, encoded: bytes) -> bool:
    try:
        return orjson.dumps(document) == encoded
    except TypeError:
        return False


async def _add_objects(
    call: dict[str, Any], wants: Collection[str], write: ReviewedWrite, resource: ServedResource
) -> None:
    """Add the objects to a call, encoded. wants: the arguments of the function."""
    call["object"] = None
    if write.new is not None:
        call["object"] = orjson.Fragment(await write.encoded(write.new, resource, is_old=False))
    if write.old is not None and (write.new is None or "old" in wants):
        call["oldObject"] = orjson.Fragment(await write.encoded(write.old, resource, is_old=True))


def _turn(write: ReviewedWrite, index: int) -> str:
    """Returns the round and the index of a call, as annotations of audit events name them."""
    rounds = write.attributes.rounds
    return f"round_{int(rounds is not None and rounds.is_second)}_index_{index}"


def _denied(hook: ExtensionHook, denial: Document) -> AdmissionDenied:
    return AdmissionDenied(f'extension "{hook.extension}"', denial)


# ---- the two plugins


class MutatingExtension(ExtensionPlugin):
    """Calls the functions that mutate one after the other; each sees the changes of those before it.

    A function with `reinvoke=True` is called again if a later one or another plugin has changed the object.
    """

    name = "MutatingExtension"
    has_rounds = True
    kind = Kind.MUTATE
    audit_step, latency_layer = "mutation", "mutating-extension"

    async def mutate_deletion(self, attributes: AdmissionAttributes, old: Document | None) -> Sequence[str]:
        return await self.mutate(attributes, None, old)

    async def mutate(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> Sequence[str]:
        write = ReviewedWrite(attributes, self._with.equivalents, new, old)
        matched = self._functions_of(write)
        return await call_in_turn(matched, self, write, partial(self._call, write, matched))

    async def _call(
        self,
        write: ReviewedWrite,
        matched: Mapping[AdmissionFunction, MatchedFunction],
        function: AdmissionFunction,
        _: int,
    ) -> ReviewOutcome | None:
        """Call one of the matched functions, and replace the object by its result.

        Returns None if its condition does not select the write.
        """
        hook, (number, resource) = function.hook, matched[function]
        rounds = write.attributes.rounds
        if rounds is not None and rounds.left_out and hook.key in rounds.left_out:
            return None
        if function.is_selective:
            try:
                if not await self._is_called(function, write, resource):
                    return None
            except HookFailed as failed:
                return self._failed(failed, hook, write, _turn(write, number))
        inline = hook.inline
        began = perf_counter()
        try:
            if inline is None:
                result = await self._called_in_worker(hook, resource, write)
            elif resource is write.new_shown_as_is and not inline.info.wants:
                result = _call_now(inline, hook, {"object": write.new}, write.hub_json(), write)
            else:
                result = await self._called_inline(inline, hook, resource, write)
            outcome = NOTHING  # Most functions change few objects.
            if result:
                outcome = await self._mutated(function, result, write, matched[function])
        except HookFailed as failed:
            outcome = self._failed(failed, hook, write, _turn(write, number))
        except ApiError as error:
            outcome = ReviewOutcome((), error)
        finally:
            if inline is None or write.attributes.audit is not None:
                self._note_time(write.attributes, perf_counter() - began, is_own=inline is not None)
        if write.attributes.audit is not None:
            told = {"extension": hook.extension, "hook": hook.info.name, "mutated": outcome.has_changed}
            annotation = f"{self.annotation_prefix}{_turn(write, number)}"
            write.attributes.annotate(annotation, orjson.dumps(told).decode())
        return outcome

    async def _mutated(
        self,
        function: AdmissionFunction,
        result: Mapping[str, Any],
        write: ReviewedWrite,
        matched: MatchedFunction,
    ) -> ReviewOutcome:
        """Returns the outcome of a result, whose object has then replaced that of the write."""
        hook, (number, resource) = function.hook, matched
        answer = self._answer(hook, result, write)
        if answer.denial is not None:
            return ReviewOutcome(answer.warnings, _denied(hook, answer.denial))
        if answer.changed is None:
            return ReviewOutcome(answer.warnings)
        before, rounds = write.hub_json(), write.attributes.rounds
        has_changed = await _replaced(hook, answer.changed, write, resource)
        after = write.hub_json() if has_changed else before
        if len(after) > max(OBJECT_BYTES_MAX, len(before)):
            write.replace(await write.offload.run_begun(size_class(len(before)), orjson.loads, before))
            raise hook.invalid(f"has made an object of {len(after)} bytes, more than {OBJECT_BYTES_MAX}")
        if has_changed and rounds is not None:
            on_invalid = partial(self._made_invalid, hook, write, _turn(write, number))
            is_fatal = hook.info.on_error is OnError.FAIL
            rounds.note(FunctionChange(before, after, hook.key, self, is_fatal, on_invalid))
        return ReviewOutcome(answer.warnings, has_changed=has_changed)

    def _made_invalid(
        self, hook: ExtensionHook, write: ReviewedWrite, turn: str, fields: Sequence[InvalidField]
    ) -> Sequence[str]:
        """Decide about a write whose object is invalid because of what a function has changed.

        turn: that of the call, as `_turn` names it. Returns warnings. Raises MadeInvalid.
        """
        made, shown_fields = "has made the object invalid", fields[:_FIELDS_SHOWN]
        recorded = hook.invalid(f"{made}: {', '.join(each.without_values for each in shown_fields)}")
        shown = f"{hook} {made}: {', '.join(each.text for each in shown_fields)}"
        if hook.info.on_error is OnError.FAIL:
            raise MadeInvalid(shown, str(recorded))
        return self._failed(HookFailed(shown, recorded.failure), hook, write, turn).warnings


async def _replaced(
    hook: ExtensionHook, document: Document, write: ReviewedWrite, resource: ServedResource
) -> bool:
    """Replace the object of a write by the result of a function. Returns whether it is another one.

    Raises HookFailed if the result is no object of its kind.
    """
    if write.new is None:
        raise hook.invalid("has changed the object, which is not possible for this operation")
    view = write.attributes.view
    kind = resource if view is None else view.kind
    kind.compile()
    try:
        encoded = orjson.dumps(document)
    except orjson.JSONEncodeError:
        raise hook.invalid("has returned an object that is nested too deeply") from None
    size = max(size_class(len(encoded)), kind.size_of_defaults(encoded))
    try:
        document = await write.offload.run_begun(size, checked, document, kind)
    except InvalidDocument as invalid:
        raise hook.invalid(f"has returned an invalid object: {invalid}") from None
    return await write.take_over(document, resource)


class ValidatingExtension(ExtensionPlugin):
    """Calls functions concurrently; if several refuse, the first of them in order determines the response."""

    name = "ValidatingExtension"
    kind = Kind.VALIDATE
    audit_step, latency_layer = "validating", "validating-extension"

    async def validate_deletion(
        self, attributes: AdmissionAttributes, old: Document | None
    ) -> Sequence[str] | None:
        return await self.validate(attributes, None, old)

    async def validate(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> Sequence[str] | None:
        write = ReviewedWrite(attributes, self._with.equivalents, new, old)
        calls = []
        inline_calls = 0
        warnings: Sequence[str] = ()
        for each, (number, resource) in self._functions_of(write).items():
            try:
                if not each.is_selective or await self._is_called(each, write, resource):
                    inline_calls += each.hook.inline is not None
                    calls.append((each.hook, resource, number))
            except HookFailed as failed:
                found = self._failed(failed, each.hook, write, _turn(write, number))
                warnings = [*warnings, *found.warnings]
            except ApiError as refusal:
                refusal.add_warnings(warnings)
                raise
        if not calls:
            return warnings or None
        is_own = inline_calls == len(calls)
        began = perf_counter()
        try:
            told = await call_together(calls, partial(self._call, write))
            return [*warnings, *told] if warnings else told
        except ApiError as refusal:
            refusal.add_warnings(warnings)
            raise
        finally:
            if not is_own or attributes.audit is not None:
                took_s = perf_counter() - began
                if inline_calls and not is_own:
                    self._note_time(attributes, write.inline_s, is_own=True)
                    took_s -= write.inline_s
                self._note_time(attributes, took_s, is_own=is_own)

    async def _call(
        self, write: ReviewedWrite, call: tuple[ExtensionHook, ServedResource, int], _: int
    ) -> ReviewOutcome:
        """Call one function. call: also has its index."""
        hook, resource, number = call
        inline = hook.inline
        try:
            if inline is None:
                result = await self._called_in_worker(hook, resource, write)
            elif resource is write.new_shown_as_is and not inline.info.wants:
                result = _call_now(inline, hook, {"object": write.new}, write.hub_json(), write)
            else:
                result = await self._called_inline(inline, hook, resource, write)
            if not result:  # As most functions say of most writes.
                return NOTHING
            answer = self._answer(hook, result, write)
        except HookFailed as failed:
            return self._failed(failed, hook, write, _turn(write, number))
        except ApiError as error:
            return ReviewOutcome((), error)
        denial = answer.denial
        return ReviewOutcome(answer.warnings, None if denial is None else _denied(hook, denial))
