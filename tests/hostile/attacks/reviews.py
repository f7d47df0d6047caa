"""Questions about permissions whose answers take long."""

from __future__ import annotations

from typing import Any, Final

from tests.hostile.attack import Attacker, Stage, attack
from tests.hostile.site import ATTACKED, BINDINGS, NOBODY, READER
from tests.support.rbac import binding

AUTHORIZATION: Final = "/apis/authorization.k8s.io/v1"
ACCESS: Final = f"{AUTHORIZATION}/selfsubjectaccessreviews"
RULES: Final = f"{AUTHORIZATION}/selfsubjectrulesreviews"
ROLES: Final = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ATTACKED}/roles"
# A megabyte of each.
LABEL_REQUIREMENTS: Final = 18_000
FIELD_REQUIREMENTS: Final = 18_000
ROLES_OF_READER: Final = 20
RULES_OF_ROLE: Final = 2_000


def _review(**attributes: Any) -> dict[str, Any]:
    about = {"namespace": ATTACKED, "verb": "list", "resource": "configmaps", **attributes}
    return {"spec": {"resourceAttributes": about}}


async def _ask_again_and_again(attacker: Attacker, count: int, path: str, body: Any, user: str) -> None:
    await attacker.forever(attacker.times(count), user, lambda session: session.ask("POST", path, body))


@attack("5 turns of the loop")
async def access_reviews_with_label_requirements(attacker: Attacker) -> None:
    """20 clients ask what they may do with objects that a label selector of 18,000 requirements selects."""
    requirements = [
        {"key": f"example.com/k{n}", "operator": "In", "values": [f"v{n}"]} for n in range(LABEL_REQUIREMENTS)
    ]
    body = _review(labelSelector={"requirements": requirements})
    await _ask_again_and_again(attacker, 20, ACCESS, body, NOBODY)


@attack("5 turns of the loop")
async def access_reviews_with_field_requirements(attacker: Attacker) -> None:
    """20 clients ask what they may do with objects that a field selector of 18,000 requirements selects."""
    requirements = [
        {"key": f"spec.field{n}", "operator": "In", "values": [f"v{n}"]} for n in range(FIELD_REQUIREMENTS)
    ]
    body = _review(fieldSelector={"requirements": requirements})
    await _ask_again_and_again(attacker, 20, ACCESS, body, NOBODY)


@attack("5 turns of the loop")
async def access_reviews_with_raw_selectors(attacker: Attacker) -> None:
    """20 clients ask what they may do with objects that a selector of 1 MB of text selects."""
    raw = ",".join(f"key{n}!=value{n}" for n in range(55_000))
    body = _review(labelSelector={"rawSelector": raw})
    await _ask_again_and_again(attacker, 20, ACCESS, body, NOBODY)


async def _many_rules(stage: Stage) -> None:
    """Give a user 40,000 rules, none of which allows what it asks for."""
    rules = [
        {"apiGroups": [f"g{n}.example.com"], "resources": [f"r{n}", "configmaps"], "verbs": ["get", "list"]}
        for n in range(RULES_OF_ROLE)
    ]
    for number in range(ROLES_OF_READER):
        name = f"many-{number}"
        await stage.make(
            (ROLES, {"metadata": {"name": name}, "rules": rules}),
            (BINDINGS, binding(name, name, READER, kind="Role")),
        )


@attack("5 turns of the loop", prepare=_many_rules)
async def reviews_of_many_rules(attacker: Attacker) -> None:
    """20 clients who have 40,000 rules ask for all of them."""
    await _ask_again_and_again(attacker, 20, RULES, {"spec": {"namespace": ATTACKED}}, READER)


@attack("5 turns of the loop", prepare=_many_rules)
async def explained_denials(attacker: Attacker) -> None:
    """100 clients who have 40,000 rules ask for what none of them allows, and are told why."""
    body = _review(verb="delete")
    await _ask_again_and_again(attacker, 100, ACCESS, body, READER)
