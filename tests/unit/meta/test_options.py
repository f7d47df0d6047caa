"""The options of each verb: their combined meaning, and the errors of invalid ones.

Rows J01-J11 and the tables of rows K01-K28, G07, G08, E11, F06, F18.
https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
"""

from __future__ import annotations

import contextlib
from typing import Any, Final
from urllib.parse import parse_qs, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.meta.errors import ApiError, BadRequest, Invalid
from apiserver.meta.options import DeleteOptions, ListOptions, WriteOptions, read_at_for_get
from apiserver.meta.vocabulary import Query
from apiserver.storage.interface import ANY, MOST_RECENT, ReadAt

KNOWN: Final = frozenset({"metadata.name", "metadata.namespace"})
META: Final = "meta.example.com"


def query(text: str) -> Query:
    return parse_qs(text, keep_blank_values=True)


def for_list(text: str) -> ListOptions:
    return ListOptions.for_list(query(text), KNOWN, META)


def for_watch(text: str) -> ListOptions:
    return ListOptions.for_watch(query(text), KNOWN, META)


def messages_of(error: ApiError) -> list[str]:
    """The causes, or the message where there are none."""
    causes = (error.details or {}).get("causes")
    return [f"{cause['field']}: {cause['message']}" for cause in causes] if causes else [error.message]


# ---- which state is read

FROM_7: Final = ReadAt.not_older_than(7)
GETS: Final = {
    "K01 no version": ("", MOST_RECENT),
    "K01 an empty version": ("resourceVersion=", MOST_RECENT),
    "K02 zero": ("resourceVersion=0", ANY),
    "K03 a version": ("resourceVersion=7", FROM_7),
}


@pytest.mark.parametrize(("text", "at"), GETS.values(), ids=GETS)
def test_which_state_a_get_reads(text: str, at: ReadAt) -> None:
    assert read_at_for_get(query(text)) == at


# query, state, limit, token
LISTS: Final = {
    "K04 nothing": ("", MOST_RECENT, 0, ""),
    "K05 zero": ("resourceVersion=0", ANY, 0, ""),
    "K06 a version": ("resourceVersion=7", FROM_7, 0, ""),
    "K07 a limit": ("limit=5", MOST_RECENT, 5, ""),
    "K08 a limit at zero": ("limit=5&resourceVersion=0", ANY, 5, ""),
    "K09 a limit makes a version exact": ("limit=5&resourceVersion=7", ReadAt.exactly(7), 5, ""),
    "K10 a token": ("limit=5&continue=t", MOST_RECENT, 5, "t"),
    "K15 exact": ("resourceVersion=7&resourceVersionMatch=Exact", ReadAt.exactly(7), 0, ""),
    "K18 exact, a limit": ("limit=5&resourceVersion=7&resourceVersionMatch=Exact", ReadAt.exactly(7), 5, ""),
    "K20 not older than zero": ("resourceVersion=0&resourceVersionMatch=NotOlderThan", ANY, 0, ""),
    "K23 not older than zero, a limit": (
        "limit=5&resourceVersion=0&resourceVersionMatch=NotOlderThan",
        ANY,
        5,
        "",
    ),
    "K21 not older": ("resourceVersion=7&resourceVersionMatch=NotOlderThan", FROM_7, 0, ""),
    "K24 not older, a limit": ("limit=5&resourceVersion=7&resourceVersionMatch=NotOlderThan", FROM_7, 5, ""),
    "J06 a limit of nothing is none": ("limit=0&resourceVersion=7", FROM_7, 0, ""),
    "J06 a limit below nothing is none": ("limit=-1&resourceVersion=7", FROM_7, 0, ""),
    "J09 what is not known is not heeded": ("pretty=true&unknown=1", MOST_RECENT, 0, ""),
    "the first of many counts": ("limit=5&limit=6", MOST_RECENT, 5, ""),
}


@pytest.mark.parametrize(("text", "at", "limit", "token"), LISTS.values(), ids=LISTS)
def test_which_state_a_list_reads(text: str, at: ReadAt, limit: int, token: str) -> None:
    options = for_list(text)
    assert (options.at, options.limit, options.continue_token) == (at, limit, token)
    assert options.timeout_s is None


def test_a_token_with_version_zero_goes_on() -> None:
    """Row K11."""
    options = for_list("continue=t&limit=5&resourceVersion=0")
    assert (options.at, options.limit, options.continue_token) == (MOST_RECENT, 5, "t")


@pytest.mark.parametrize(
    "text",
    [
        "limit=5&resourceVersion=0",
        "limit=5&resourceVersion=0&continue=t",
        "limit=5&resourceVersion=0&resourceVersionMatch=NotOlderThan",
    ],
)
def test_k08_k11_k23_kubernetes_ignores_a_limit_at_version_zero(text: str) -> None:
    """Recorded: chunking/rv-and-continue."""
    assert ListOptions.for_list(query(text), KNOWN, META, limits_cached_lists=False).limit == 0


def test_a_list_has_selectors_and_a_timeout() -> None:
    """Rows I17, I18, J10."""
    options = for_list(
        urlencode({"labelSelector": "a in (b)", "fieldSelector": "metadata.name=c", "timeoutSeconds": 9})
    )
    assert options.labels.conditions.test()({"a": "b"})
    assert options.fields.required_value("metadata.name") == "c"
    assert options.timeout_s == 9


# state, initial events, closing bookmark, revision to start after
STREAM: Final = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
MARKS: Final = "allowWatchBookmarks=true"
WATCHES: Final = {
    "K26 no version": ("", MOST_RECENT, True, False, 0),
    "K27 zero": ("resourceVersion=0", ANY, True, False, 0),
    "K28 a version": ("resourceVersion=7", ANY, False, False, 7),
    "K43 no version, bookmarks": (MARKS, MOST_RECENT, True, True, 0),
    "K43 zero, bookmarks": (f"{MARKS}&resourceVersion=0", ANY, True, True, 0),
    "a version, bookmarks": (f"{MARKS}&resourceVersion=7", ANY, False, False, 7),
    "K40 streamed, no version": (f"{STREAM}&{MARKS}", MOST_RECENT, True, True, 0),
    "K39 streamed, zero": (f"{STREAM}&{MARKS}&resourceVersion=0", ANY, True, True, 0),
    "K41 streamed, a version": (f"{STREAM}&{MARKS}&resourceVersion=7", FROM_7, True, True, 7),
    "K42 streamed without bookmarks": (STREAM, MOST_RECENT, True, False, 0),
    "not streamed, on purpose": (
        f"sendInitialEvents=false&resourceVersionMatch=NotOlderThan&{MARKS}",
        MOST_RECENT,
        False,
        False,
        0,
    ),
}


@pytest.mark.parametrize(("text", "at", "initial", "closing", "after"), WATCHES.values(), ids=WATCHES)
def test_how_a_watch_begins(text: str, at: ReadAt, initial: bool, closing: bool, after: int) -> None:
    options = for_watch(text)
    assert (options.send_initial_events, options.ends_initial_events_with_bookmark) == (initial, closing)
    assert options.start_after == after
    if initial:
        assert options.at == at
    assert options.allow_bookmarks is (MARKS in text)


BOOLEANS: Final = {"true": True, "1": True, "": True, "yes": True, "false": False, "False": False, "0": False}


@pytest.mark.parametrize(("value", "means"), BOOLEANS.items(), ids=lambda value: repr(value))
def test_parameters_that_are_true(value: str, means: bool) -> None:
    """Row J05. As kube-apiserver reads booleans of a query: there, and not `false` or `0`."""
    assert for_watch(f"allowWatchBookmarks={value}").allow_bookmarks is means


BAD_GETS: Final = {
    "J11 no number": ("x", 'strconv.ParseUint: parsing "x": invalid syntax'),
    "J11 a sign": ("-1", 'strconv.ParseUint: parsing "-1": invalid syntax'),
    "J11 too large": (
        "18446744073709551616",
        'strconv.ParseUint: parsing "18446744073709551616": value out of range',
    ),
}


@pytest.mark.parametrize(("version", "why"), BAD_GETS.values(), ids=BAD_GETS)
def test_invalid_resource_versions_are_refused(version: str, why: str) -> None:
    """Row J11, alike for get, list and watch."""
    text = urlencode({"resourceVersion": version})
    for read in (lambda: read_at_for_get(query(text)), lambda: for_list(text), lambda: for_watch(text)):
        with pytest.raises(ApiError) as raised:
            read()
        assert (raised.value.code, raised.value.reason) == (400, "BadRequest")
        assert "invalid resource version" in raised.value.message
        assert why in raised.value.message


NO_VERSION: Final = (
    "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
)
NOT_ZERO: Final = (
    'resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
)
WITH_TOKEN: Final = (
    "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"
)
UNKNOWN: Final = 'resourceVersionMatch: Unsupported value: "x": supported values: "Exact", "NotOlderThan", ""'
NEEDS_MATCH: Final = (
    "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
)
NOT_FOR_WATCH: Final = (
    "resourceVersionMatch: Forbidden: "
    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
)
ONLY_NOT_OLDER: Final = 'resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"'
BAD_LISTS: Final = {
    "K12 a token and a version": (
        "continue=t&resourceVersion=7",
        400,
        ["specifying resource version is not allowed when using continue"],
    ),
    "K13 exact, no version": ("resourceVersionMatch=Exact", 422, [NO_VERSION]),
    "K14 exact, zero": ("resourceVersionMatch=Exact&resourceVersion=0", 422, [NOT_ZERO]),
    "K16 exact, a limit, no version": ("limit=5&resourceVersionMatch=Exact", 422, [NO_VERSION]),
    "K17 exact, a limit, zero": ("limit=5&resourceVersionMatch=Exact&resourceVersion=0", 422, [NOT_ZERO]),
    "K19 not older, no version": ("resourceVersionMatch=NotOlderThan", 422, [NO_VERSION]),
    "K22 not older, a limit, no version": ("limit=5&resourceVersionMatch=NotOlderThan", 422, [NO_VERSION]),
    "K25 a match with a token": (
        "resourceVersionMatch=Exact&resourceVersion=7&continue=t",
        422,
        [WITH_TOKEN],
    ),
    "J02 another match": ("resourceVersionMatch=x&resourceVersion=7", 422, [UNKNOWN]),
    "J01, J02 all of it at once": (
        "resourceVersionMatch=x&continue=t",
        422,
        [NO_VERSION, WITH_TOKEN, UNKNOWN],
    ),
    "J04 initial events": (
        "sendInitialEvents=false",
        422,
        ["sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"],
    ),
    "J06 a limit that is no number": ("limit=x", 400, ['strconv.ParseInt: parsing "x": invalid syntax']),
    "J06 an empty limit": ("limit=", 400, ['strconv.ParseInt: parsing "": invalid syntax']),
    "J06 a limit that is too large": (
        "limit=9223372036854775808",
        400,
        ['strconv.ParseInt: parsing "9223372036854775808": value out of range'],
    ),
    "J10 a timeout that is no number": (
        "timeoutSeconds=1.5",
        400,
        ['strconv.ParseInt: parsing "1.5": invalid syntax'],
    ),
    "I17 a bad label selector": ("labelSelector=a%2C", 400, ["found '', expected: identifier after ','"]),
    "I18 an unknown field": (
        "fieldSelector=data.x%3D1",
        400,
        ['"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"'],
    ),
}


@pytest.mark.parametrize(("text", "code", "causes"), BAD_LISTS.values(), ids=BAD_LISTS)
def test_which_lists_are_refused(text: str, code: int, causes: list[str]) -> None:
    with pytest.raises(ApiError) as raised:
        for_list(text)
    assert raised.value.code == code
    assert messages_of(raised.value) == causes


BAD_WATCHES: Final = {
    "J03 a match alone": ("resourceVersionMatch=NotOlderThan", [NOT_FOR_WATCH]),
    "J03 another match": ("resourceVersionMatch=Exact", [NOT_FOR_WATCH, ONLY_NOT_OLDER]),
    "J04 no match": ("sendInitialEvents=true", [NEEDS_MATCH]),
    "J04 no match, though none are wanted": ("sendInitialEvents=false", [NEEDS_MATCH]),
    "J03, J04 another match": (
        "sendInitialEvents=true&resourceVersionMatch=Exact",
        [NEEDS_MATCH, ONLY_NOT_OLDER],
    ),
    "K25 a token": (f"{STREAM}&continue=t", [WITH_TOKEN]),
}


@pytest.mark.parametrize(("text", "causes"), BAD_WATCHES.values(), ids=BAD_WATCHES)
def test_which_watches_are_refused(text: str, causes: list[str]) -> None:
    with pytest.raises(ApiError) as raised:
        for_watch(text)
    assert (raised.value.code, raised.value.reason) == (422, "Invalid")
    assert messages_of(raised.value) == causes
    assert raised.value.message.startswith('ListOptions.meta.example.com "" is invalid: ')


# ---- writes

WRITES: Final = {
    "nothing": ("", WriteOptions()),
    "J09 what is not known": ("pretty=true", WriteOptions()),
    "J07 a dry run": ("dryRun=All", WriteOptions(dry_run=True)),
    "J07 said twice": ("dryRun=All&dryRun=All", WriteOptions(dry_run=True)),
    "E06 unknown fields are ignored": (
        "fieldValidation=Ignore",
        WriteOptions(field_validation="Ignore", sent_field_validation="Ignore"),
    ),
    "E08 or refused": (
        "fieldValidation=Strict",
        WriteOptions(field_validation="Strict", sent_field_validation="Strict"),
    ),
    "E07 a warning, if nothing is said": ("fieldValidation=", WriteOptions(field_validation="Warn")),
    "J09 the manager": ("fieldManager=a+b-é", WriteOptions(field_manager="a b-é")),
    "F06 a manager of 128 bytes": ("fieldManager=" + "é" * 64, WriteOptions(field_manager="é" * 64)),
}


@pytest.mark.parametrize(("text", "options"), WRITES.values(), ids=WRITES)
def test_the_options_of_a_write_are_parsed(text: str, options: WriteOptions) -> None:
    assert WriteOptions.from_query(query(text), "CreateOptions", META, allows_empty_dry_run=True) == options


@pytest.mark.parametrize("text", ["dryRun", "dryRun="])
def test_an_empty_dry_run_is_one_with_a_warning(text: str) -> None:
    """Row J08."""
    write = WriteOptions.from_query(query(text), "UpdateOptions", META, allows_empty_dry_run=True)
    delete = DeleteOptions.from_query(query(text), META, allows_empty_dry_run=True)
    assert (write.dry_run, delete.dry_run) == (True, True)
    assert len(write.warnings) == len(delete.warnings) == 1
    assert "side effects" in write.warnings[0]


BAD_DRY_RUN: Final = 'dryRun: Unsupported value: ["x"]: supported values: "All"'
BAD_WRITES: Final = {
    "J08 another dry run": ("dryRun=x", [BAD_DRY_RUN]),
    "J08 another dry run beside a good one": (
        "dryRun=All&dryRun=x",
        ['dryRun: Unsupported value: ["All","x"]: supported values: "All"'],
    ),
    "E11 another field validation": (
        "fieldValidation=strict",
        ['fieldValidation: Unsupported value: "strict": supported values: "", "Ignore", "Strict", "Warn"'],
    ),
    "F06 a manager of 129 bytes": (
        "fieldManager=a" + "é" * 64,
        ["fieldManager: Too long: may not be more than 128 bytes"],
    ),
    "F06 a manager that cannot be printed": (
        "fieldManager=a%09b%E2%80%8B",
        [
            r'fieldManager: Invalid value: "a\tb\u200b": invalid character U+0009 (at position 1)',
            r'fieldManager: Invalid value: "a\tb\u200b": invalid character U+200B (at position 3)',
        ],
    ),
    "F06 positions are in bytes": (
        "fieldManager=%C3%A9%09",
        [r'fieldManager: Invalid value: "é\t": invalid character U+0009 (at position 2)'],
    ),
    "F06 no more than the first characters that cannot be printed": (
        "fieldManager=" + "%0B" * 128,
        [
            'fieldManager: Invalid value: "'
            + r"\v" * 128
            + f'": invalid character U+000B (at position {each})'
            for each in range(32)
        ],
    ),
    "F18 force, which only an apply has": (
        "force=true",
        ["force: Forbidden: may not be specified for non-apply patch"],
    ),
    "F18 even if it says no": ("force=false", ["force: Forbidden: may not be specified for non-apply patch"]),
}


@pytest.mark.parametrize(("text", "causes"), BAD_WRITES.values(), ids=BAD_WRITES)
def test_which_options_of_a_write_are_refused(text: str, causes: list[str]) -> None:
    with pytest.raises(ApiError) as raised:
        WriteOptions.from_query(query(text), "PatchOptions", META, allows_empty_dry_run=True)
    assert (raised.value.code, raised.value.reason) == (422, "Invalid")
    assert messages_of(raised.value) == causes
    assert raised.value.message.startswith('PatchOptions.meta.example.com "" is invalid: ')


# ---- deletes

DELETES: Final[dict[str, tuple[str, dict[str, Any], DeleteOptions]]] = {
    "nothing": ("", {}, DeleteOptions()),
    "J07 a dry run": ("dryRun=All", {"dryRun": ["All"]}, DeleteOptions(dry_run=True)),
    "G07 a grace period": (
        "gracePeriodSeconds=5",
        {"gracePeriodSeconds": 5},
        DeleteOptions(grace_period_s=5),
    ),
    "G07 no grace period is not the default one": (
        "gracePeriodSeconds=0",
        {"gracePeriodSeconds": 0},
        DeleteOptions(grace_period_s=0),
    ),
    "G07 a policy": (
        "propagationPolicy=Foreground",
        {"propagationPolicy": "Foreground"},
        DeleteOptions(propagation="Foreground"),
    ),
    "G07 orphans, in the old words": (
        "orphanDependents=true",
        {"orphanDependents": True},
        DeleteOptions(propagation="Orphan", orphan_dependents=True),
    ),
    "G07 no orphans, in the old words": (
        "orphanDependents=false",
        {"orphanDependents": False},
        DeleteOptions(propagation="Background", orphan_dependents=False),
    ),
}


@pytest.mark.parametrize(("text", "body", "options"), DELETES.values(), ids=DELETES)
def test_a_query_and_a_body_mean_the_same_deletion(
    text: str, body: dict[str, Any], options: DeleteOptions
) -> None:
    """Row G09."""
    assert DeleteOptions.from_query(query(text), META, allows_empty_dry_run=True) == options
    assert DeleteOptions.from_body(body, META, allows_empty_dry_run=True) == options


# Row G06: k8s.io/apimachinery, pkg/apis/meta/v1/conversion.go. What is empty in a query asks for nothing.
PRECONDITIONS: Final[dict[str, tuple[str, dict[str, Any], DeleteOptions]]] = {
    "a uid": ("uid=u", {"uid": "u"}, DeleteOptions(uid="u")),
    "a resourceVersion": ("resourceVersion=7", {"resourceVersion": "7"}, DeleteOptions(resource_version="7")),
    "both": (
        "uid=u&resourceVersion=7",
        {"uid": "u", "resourceVersion": "7"},
        DeleteOptions(uid="u", resource_version="7"),
    ),
    "the first of several": ("uid=u&uid=v", {"uid": "u"}, DeleteOptions(uid="u")),
    "empty ones": ("uid=&resourceVersion=", {}, DeleteOptions()),
}


@pytest.mark.parametrize(("text", "body", "options"), PRECONDITIONS.values(), ids=PRECONDITIONS)
def test_a_query_and_a_body_have_the_same_preconditions(
    text: str, body: dict[str, Any], options: DeleteOptions
) -> None:
    assert DeleteOptions.from_query(query(text), META, allows_empty_dry_run=True) == options
    in_body = {"preconditions": body}
    assert DeleteOptions.from_body(in_body, META, allows_empty_dry_run=True) == options


def test_no_values_are_no_dry_run() -> None:
    """As in Kubernetes: some clients always send the list."""
    assert DeleteOptions.from_body({"dryRun": []}, META, allows_empty_dry_run=True) == DeleteOptions()


def test_null_is_no_option_of_a_deletion() -> None:
    body = dict.fromkeys(
        ("dryRun", "gracePeriodSeconds", "orphanDependents", "preconditions", "propagationPolicy")
    )
    assert DeleteOptions.from_body(body, META, allows_empty_dry_run=True) == DeleteOptions()


BAD_POLICY: Final = (
    'propagationPolicy: Unsupported value: "x": supported values: "Foreground", "Background", "Orphan", "nil"'
)
BOTH_SET: Final = (
    'propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set'
)
BAD_DELETES: Final[dict[str, tuple[str, dict[str, Any], list[str]]]] = {
    "G07 another policy": ("propagationPolicy=x", {"propagationPolicy": "x"}, [BAD_POLICY]),
    "G07 an empty policy": (
        "propagationPolicy=",
        {"propagationPolicy": ""},
        [BAD_POLICY.replace('"x"', '""')],
    ),
    "G07 a policy in both words": (
        "propagationPolicy=Orphan&orphanDependents=true",
        {"propagationPolicy": "Orphan", "orphanDependents": True},
        [BOTH_SET],
    ),
    "J08 another dry run": ("dryRun=x", {"dryRun": ["x"]}, [BAD_DRY_RUN]),
}


@pytest.mark.parametrize(("text", "body", "causes"), BAD_DELETES.values(), ids=BAD_DELETES)
def test_which_options_of_a_deletion_are_refused(text: str, body: dict[str, Any], causes: list[str]) -> None:
    with pytest.raises(ApiError) as by_query:
        DeleteOptions.from_query(query(text), META, allows_empty_dry_run=True)
    with pytest.raises(ApiError) as by_body:
        DeleteOptions.from_body(body, META, allows_empty_dry_run=True)
    assert by_query.value.status() == by_body.value.status()
    assert by_body.value.code == 422
    assert messages_of(by_body.value) == causes


# Row G08: policy, what is there, orphans by default -> what is there after.
FINALIZERS: Final[dict[str, tuple[str, list[str], bool, list[str]]]] = {
    "none": ("", [], False, []),
    "a resource that leaves orphans": ("", [], True, ["orphan"]),
    "in the background": ("Background", ["a/b"], True, ["a/b"]),
    "in the foreground": ("Foreground", ["a/b"], False, ["a/b", "foregroundDeletion"]),
    "orphans": ("Orphan", ["a/b"], False, ["a/b", "orphan"]),
    "what is there counts where nothing is said": ("", ["foregroundDeletion"], True, ["foregroundDeletion"]),
    "orphans there already": ("", ["orphan", "a/b"], False, ["orphan", "a/b"]),
    "one policy takes the place of another": ("Orphan", ["foregroundDeletion"], False, ["orphan"]),
    "the background takes both away": ("Background", ["orphan", "a/b", "foregroundDeletion"], False, ["a/b"]),
    "the order stays where nothing changes": ("Orphan", ["orphan", "a/b"], False, ["orphan", "a/b"]),
}


@pytest.mark.parametrize(("policy", "present", "orphans", "after"), FINALIZERS.values(), ids=FINALIZERS)
def test_a_deletion_leaves_a_word_for_the_garbage_collector(
    policy: str, present: list[str], orphans: bool, after: list[str]
) -> None:
    document = {"metadata": {"finalizers": present} if present else {}}
    options = DeleteOptions(propagation=policy)
    assert options.finalizers(document, orphans_by_default=orphans) == after


# ---- any query at all

_parameter: Final = st.sampled_from(
    [
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "timeoutSeconds",
        "labelSelector",
        "fieldSelector",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
        "gracePeriodSeconds",
        "orphanDependents",
        "propagationPolicy",
    ]
)
_value: Final = st.sampled_from(["", "0", "7", "-1", "true", "Exact", "NotOlderThan", "All"]) | st.text(
    max_size=9
)


@given(st.dictionaries(_parameter, st.lists(_value, min_size=1, max_size=2), max_size=5))
def test_any_query_has_a_meaning_or_is_the_clients_mistake(parameters: dict[str, list[str]]) -> None:
    for understand in (
        lambda: read_at_for_get(parameters),
        lambda: ListOptions.for_list(parameters, KNOWN, META),
        lambda: ListOptions.for_watch(parameters, KNOWN, META),
        lambda: WriteOptions.from_query(parameters, "PatchOptions", META, allows_empty_dry_run=True),
        lambda: DeleteOptions.from_query(parameters, META, allows_empty_dry_run=True),
    ):
        with contextlib.suppress(BadRequest, Invalid):
            understand()


DOCUMENTS: Final[dict[str, tuple[WriteOptions | DeleteOptions, str, dict[str, Any]]]] = {
    "nothing": (WriteOptions(), "CREATE", {"kind": "CreateOptions"}),
    "all of a create": (
        WriteOptions.from_query(
            query("dryRun=All&fieldManager=m&fieldValidation=Strict"),
            "CreateOptions",
            META,
            allows_empty_dry_run=True,
        ),
        "CREATE",
        {"kind": "CreateOptions", "dryRun": ["All"], "fieldManager": "m", "fieldValidation": "Strict"},
    ),
    "an apply has no force": (
        WriteOptions.from_query(
            query("fieldManager=m&force=true"), "PatchOptions", META, allows_empty_dry_run=True, is_apply=True
        ),
        "UPDATE",
        {"kind": "UpdateOptions", "fieldManager": "m"},
    ),
    "all of a delete": (
        DeleteOptions(True, 0, "u", "7", "Foreground"),
        "DELETE",
        {
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u", "resourceVersion": "7"},
            "propagationPolicy": "Foreground",
            "dryRun": ["All"],
        },
    ),
    "a delete in the old words": (
        DeleteOptions(propagation="Background", orphan_dependents=False),
        "DELETE",
        {"kind": "DeleteOptions", "orphanDependents": False},
    ),
}


@pytest.mark.parametrize(("options", "operation", "document"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_options_as_webhooks_see_them(
    options: WriteOptions | DeleteOptions, operation: str, document: dict[str, Any]
) -> None:
    assert options.document(operation, META) == {"apiVersion": f"{META}/v1", **document}
