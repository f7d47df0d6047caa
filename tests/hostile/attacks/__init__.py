"""The attacks, by what they are aimed at. Importing this package registers all of them in `ATTACKS`."""

from tests.hostile.attack import ATTACKS
from tests.hostile.attacks import (
    answers,
    baseline,
    bodies,
    connections,
    definitions,
    expressions,
    floods,
    forms,
    history,
    kubelets,
    reviews,
    selectors,
    subscriptions,
    webhooks,
)

__all__ = [
    "ATTACKS",
    "answers",
    "baseline",
    "bodies",
    "connections",
    "definitions",
    "expressions",
    "floods",
    "forms",
    "history",
    "kubelets",
    "reviews",
    "selectors",
    "subscriptions",
    "webhooks",
]
