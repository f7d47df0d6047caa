"""The chain of admission plugins: whom it calls, in what order, and what becomes of their warnings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from apiserver.admission.chain import (
    CHANGES_BYTES_MAX,
    AdmissionAttributes,
    AdmissionChain,
    FunctionChange,
    Operation,
    Plugin,
    ReinvocationContext,
)
from apiserver.load.offload import Offload
from apiserver.meta.errors import BadRequest, Forbidden
from apiserver.meta.vocabulary import Document, GroupResource, UserInfo
from apiserver.metrics.admission import AdmissionMetrics
from apiserver.metrics.exposition import Exposition
from apiserver.registry.invalidating_changes import InvalidField
from tests.support.in_process import resource

CONFIG_MAPS: Final = resource("configmaps", "")
LABELS: Final = ("name", "type", "operation", "rejected")


class Recorder(Plugin):
    """Handles one operation, notes its calls, warns, and may refuse."""

    def __init__(self, name: str, calls: list[str], operation: Operation, *, refuses: bool = False) -> None:
        self.name = name
        self._calls, self._operation, self._refuses = calls, operation, refuses
        self.times_asked_whether = 0

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        self.times_asked_whether += 1
        return operation is self._operation

    async def mutate(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[str]:
        self._calls.append(self.name)
        if self._refuses:
            raise Forbidden("refused")
        return [f"from {self.name}"]


def attributes(operation: Operation = Operation.CREATE) -> AdmissionAttributes:
    return AdmissionAttributes(operation, CONFIG_MAPS, "default", "a", UserInfo("alice"), Offload())


async def test_the_plugins_that_handle_a_write_are_called_in_their_order() -> None:
    calls: list[str] = []
    first, other, last = (
        Recorder(name, calls, operation)
        for name, operation in (
            ("first", Operation.CREATE),
            ("other", Operation.UPDATE),
            ("last", Operation.CREATE),
        )
    )
    admission = AdmissionChain([first, other, last]).admission_for(attributes())
    assert await admission.mutate({}, None) == ["from first", "from last"]
    assert calls == ["first", "last"]
    assert await admission.validate({}, None) == []


async def test_a_write_that_no_plugin_handles_is_admitted() -> None:
    calls: list[str] = []
    admission = AdmissionChain([Recorder("a", calls, Operation.CREATE)]).admission_for(
        attributes(Operation.DELETE)
    )
    assert await admission.mutate({}, None) == []
    assert await admission.validate({}, None) == []
    assert calls == []


def test_a_plugin_is_asked_once_whether_it_handles_such_writes() -> None:
    plugin = Recorder("a", [], Operation.CREATE)
    chain = AdmissionChain([plugin])
    for name in ("a", "b"):
        chain.admission_for(attributes()._replace(name=name))
    assert plugin.times_asked_whether == 1


async def test_a_refusal_carries_the_warnings_of_earlier_plugins_and_ends_the_chain() -> None:
    calls: list[str] = []
    admission = AdmissionChain(
        [
            Recorder("first", calls, Operation.CREATE),
            Recorder("refusing", calls, Operation.CREATE, refuses=True),
            Recorder("last", calls, Operation.CREATE),
        ]
    ).admission_for(attributes())
    with pytest.raises(Forbidden) as refused:
        await admission.mutate({}, None)
    assert refused.value.warnings == ["from first"]
    assert calls == ["first", "refusing"]


def counted(metrics: AdmissionMetrics) -> set[tuple[str, ...]]:
    """The labels of what has been counted, and how often."""
    text = b"".join(Exposition([metrics]).slices()).decode()
    return {
        (*(sample.labels.get(label, "") for label in LABELS), f"{sample.value:.0f}")
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("apiserver_admission_") and sample.name.endswith("_count")
    }


async def test_plugins_and_steps_are_timed() -> None:
    metrics = AdmissionMetrics()
    first, last = Recorder("first", [], Operation.CREATE), Recorder("last", [], Operation.CREATE)
    admission = AdmissionChain([first, last], metrics).admission_for(attributes())
    await admission.mutate({}, None)
    await admission.mutate({}, None)
    await admission.validate({}, None)
    assert counted(metrics) == {
        ("first", "admit", "CREATE", "false", "2"),
        ("last", "admit", "CREATE", "false", "2"),
        ("", "admit", "CREATE", "false", "2"),
        # No plugin takes part in this step.
        ("", "validate", "CREATE", "false", "1"),
    }


async def test_a_refusal_is_counted_with_the_plugin_and_the_step() -> None:
    metrics = AdmissionMetrics()
    plugins = [
        Recorder("first", [], Operation.CREATE),
        Recorder("refusing", [], Operation.CREATE, refuses=True),
        Recorder("last", [], Operation.CREATE),
    ]
    admission = AdmissionChain(plugins, metrics).admission_for(attributes())
    with pytest.raises(Forbidden):
        await admission.mutate({}, None)
    assert counted(metrics) == {
        ("first", "admit", "CREATE", "false", "1"),
        ("refusing", "admit", "CREATE", "true", "1"),
        ("", "admit", "CREATE", "true", "1"),
    }


# ---- second turns


class Changer(Plugin):
    """Asks for a second turn of all, as a webhook does that has changed the object."""

    name = "changer"
    has_rounds = True

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls
        self.is_concerned = True
        self.changes = 0
        self.configurations = [self]

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return self.is_concerned

    async def mutate(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[str]:
        assert attributes.rounds is not None
        self._calls.append(f"changer {attributes.rounds.is_second}")
        attributes.rounds.of(self).on_change()
        return ["changed"]


async def test_all_plugins_have_one_more_turn_where_one_asks_for_it() -> None:
    calls: list[str] = []
    plugins = [Recorder("first", calls, Operation.CREATE), Changer(calls)]
    admission = AdmissionChain(plugins).admission_for(attributes())
    warnings = await admission.mutate({}, None)
    assert calls == ["first", "changer False", "first", "changer True"]
    assert warnings == ["from first", "changed"] * 2


class Keeper(Changer):
    """May change the object, and does not."""

    async def mutate(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[str]:
        return ()


@pytest.mark.parametrize(
    ("plugins", "has_mutated"),
    [
        ([], False),
        ([Keeper([])], False),
        ([Keeper([]), Changer([])], True),
        # It says nothing about what it does.
        ([Keeper([]), Recorder("first", [], Operation.CREATE)], True),
    ],
    ids=["no plugin", "one that changes nothing", "one that does", "one that does not tell"],
)
async def test_whether_a_write_was_mutated(plugins: Sequence[Plugin], has_mutated: bool) -> None:
    admission = AdmissionChain(plugins).admission_for(attributes())
    await admission.mutate({}, None)
    assert admission.has_mutated is has_mutated


async def test_whom_a_write_concerns_is_asked_again_when_the_answer_may_be_another() -> None:
    calls: list[str] = []
    changer = Changer(calls)
    chain = AdmissionChain([changer])
    assert chain.admission_for(attributes()).may_mutate
    changer.is_concerned = False
    assert chain.admission_for(attributes()).may_mutate, "its answer is cached"
    changer.changes += 1
    assert not chain.admission_for(attributes()).may_mutate


class Function(Changer):
    """Calls two functions, which change the object, and notes which. fatal: one that fails writes."""

    name = "functions"
    fatal = ""

    async def mutate(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[str]:
        rounds = attributes.rounds
        assert rounds is not None
        for function in ("f", "g"):
            if function not in rounds.left_out:
                self._calls.append(function)
                failed = partial(self._failed, function)
                rounds.note(FunctionChange(b"{}", b"{}", function, self, function == self.fatal, failed))
        return ["of functions"]

    def _failed(self, function: str, fields: Sequence[InvalidField]) -> Sequence[str]:
        self._calls.append(f"{function} has failed")
        if function == self.fatal:
            raise Forbidden(function)
        return [f"{function}: {fields[0].text}"]


WRONG: Final = [InvalidField("a is wrong", "a")]


async def test_mutation_resumes_without_the_functions_that_have_failed() -> None:
    """At their plugin: those before have had their turn."""
    calls: list[str] = []
    plugins = [Recorder("first", calls, Operation.CREATE), Function(calls)]
    admission = AdmissionChain(plugins).admission_for(attributes())
    await admission.mutate({}, None)
    resumption = admission.resumption({1: WRONG})
    assert calls == ["first", "f", "g", "g has failed"]
    calls.clear()
    kept = ["from first", "g: a is wrong"]
    assert await admission.mutate({}, None, resumption) == [*kept, "of functions"]
    last = admission.resumption({0: WRONG})
    assert await admission.mutate({}, None, last) == [*kept, "f: a is wrong", "of functions"]
    assert calls == ["f", "f has failed"]
    assert not admission.changes


class Called(Changer):
    """Notes that it has called something, and what is due when it is called."""

    name = "called"

    async def mutate(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[str]:
        assert attributes.rounds is not None
        rounds = attributes.rounds.of(self)
        await rounds.enter(new, attributes.offload)
        self._calls.append(f"due {sorted(map(str, rounds.due))}")
        rounds.called.add("webhook")
        rounds.leave(new)
        return ()


class SoundFunction(Function):
    """Also changes the object, so that all plugins are called again."""

    async def mutate(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[str]:
        assert attributes.rounds is not None
        if not attributes.rounds.is_second:
            new["sound"] = True
            attributes.rounds.of(self).on_change()
        return await super().mutate(attributes, new, old)


async def test_what_was_called_before_the_functions_is_called_again_after_a_resumption() -> None:
    """As it would be without the function that has failed."""
    calls: list[str] = []
    plugins = [Called(calls), SoundFunction(calls)]
    admission = AdmissionChain(plugins).admission_for(attributes())
    await admission.mutate({}, None)
    calls.clear()
    await admission.mutate({}, None, admission.resumption({1: WRONG}))
    assert calls == ["g has failed", "f", "due ['webhook']", "f"]


class Late(Function):
    """Calls its functions only when all plugins are called again."""

    async def mutate(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[str]:
        assert attributes.rounds is not None
        return await super().mutate(attributes, new, old) if attributes.rounds.is_second else ()


async def test_all_are_called_again_after_a_resumption_if_what_came_before_wants_it() -> None:
    calls: list[str] = []
    plugins = [Recorder("first", calls, Operation.CREATE), Changer(calls), Function(calls)]
    admission = AdmissionChain(plugins).admission_for(attributes())
    await admission.mutate({}, None)
    assert calls == ["first", "changer False", "f", "g", "first", "changer True", "f", "g"]
    resumption = admission.resumption({1: WRONG})
    calls.clear()
    await admission.mutate({}, None, resumption)
    assert calls == ["f", "first", "changer True", "f"]


async def test_a_second_call_of_all_is_resumed_as_such_and_no_third_one_follows() -> None:
    calls: list[str] = []
    plugins = [Recorder("first", calls, Operation.CREATE), Changer(calls), Late(calls)]
    admission = AdmissionChain(plugins).admission_for(attributes())
    await admission.mutate({}, None)
    assert calls == ["first", "changer False", "first", "changer True", "f", "g"]
    resumption = admission.resumption({1: WRONG})
    calls.clear()
    await admission.mutate({}, None, resumption)
    assert calls == ["f"]


def test_changes_of_large_objects_are_noted_up_to_a_bound() -> None:
    """States that are before a change and after another one count once. After a gap, none is noted."""
    rounds, plugin = ReinvocationContext(), Plugin()
    states = [b"{}", *(bytes(CHANGES_BYTES_MAX // 3) for _ in range(4)), b"{}"]
    for number, (before, after) in enumerate(pairwise(states)):
        rounds.note(FunctionChange(before, after, number, plugin, False, lambda _: ()))
    assert [each.function for each in rounds.changes] == [0, 1]


async def test_another_attempt_at_a_write_begins_with_all_functions() -> None:
    calls: list[str] = []
    admission = AdmissionChain([Function(calls)]).admission_for(attributes())
    await admission.mutate({}, None)
    await admission.mutate({}, None, admission.resumption({1: WRONG}))
    calls.clear()
    await admission.mutate({}, None)
    assert calls == ["f", "g"]


async def test_the_failure_that_refuses_the_write_is_the_only_one() -> None:
    calls: list[str] = []
    plugin = Function(calls)
    plugin.fatal = "g"
    admission = AdmissionChain([plugin]).admission_for(attributes())
    await admission.mutate({}, None)
    with pytest.raises(Forbidden, match="g"):
        admission.resumption({0: WRONG, 1: WRONG})
    assert calls == ["f", "g", "g has failed"]


def test_those_that_were_called_before_a_change_are_called_again() -> None:
    both, plugin = ReinvocationContext(), Plugin()
    rounds = both.of(plugin)
    rounds.called.add("a")
    rounds.on_change()
    rounds.called.add("b")
    assert (both.is_wanted, rounds.due) == (True, {"a"})
    assert both.of(plugin) is rounds
    assert both.of(Plugin()).due == set(), "each plugin has its own"


async def test_a_change_by_others_between_the_turns_counts_too() -> None:
    rounds, offload, document = ReinvocationContext().of(Plugin()), Offload(), {"a": 1, "b": 2}
    await rounds.enter(document, offload)
    rounds.called.add("a")
    rounds.leave(document)
    for same in (document, {"b": 2, "a": 1}):
        await rounds.enter(same, offload)
        assert rounds.due == set()
    await rounds.enter({"a": True, "b": 2}, offload)
    assert rounds.due == {"a"}


async def test_large_objects_are_compared_between_the_turns_beside_the_event_loop() -> None:
    members = [(f"k{number}", "") for number in range(10_000)]
    rounds, offload = ReinvocationContext().of(Plugin()), Offload()
    rounds.called.add("a")
    rounds.leave(dict(members))
    await rounds.enter(dict(members), offload)
    assert sum(lane.done_total for lane in offload.lanes.values()) == 0, "it is the same as it was"
    await rounds.enter(dict(reversed(members)), offload)
    assert rounds.due == set()
    await rounds.enter({}, offload)
    assert rounds.due == {"a"}
    assert sum(lane.done_total for lane in offload.lanes.values()) == 2
    offload.close()


async def test_an_object_that_is_nested_too_deeply_is_no_mistake_of_the_server() -> None:
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"a": deep}
    rounds = ReinvocationContext().of(Plugin())
    rounds.called.add("a")
    with pytest.raises(BadRequest):
        rounds.leave(deep)
