"""An extension that knows users and decides what they may do."""

from __future__ import annotations

from apiserver.extensions import AccessAttributes, Denied, Extension, User

NAMES: dict[str, str] = {}
app = Extension("access", timeout_s=0.5)


@app.authenticate()
def user_of(token: str) -> User | str | None:
    match token.split("."):
        case ["full", name]:
            return User(name, "7", ["dev"], {"example.com/team": ["a"]})
        case ["name", name]:
            return name
        case ["revoked", _]:
            raise Denied("the token was revoked")
        case ["fault", _]:
            raise RuntimeError(f"cannot look up {token}")
        case ["missing", _]:
            return NAMES[token]
        case ["wrong", _]:
            return 3  # type: ignore[return-value]
        case ["slow", _]:
            while True:
                pass
        case _:
            return None


@app.authorize()
async def decide(attributes: AccessAttributes) -> bool | None:
    match attributes.user.name, attributes.verb, attributes.resource:
        case "reader", "get" | "list", "configmaps":
            return True
        case "reader", _, "secrets":
            return False
        case "reader", "create", "configmaps":
            raise Denied("configmaps are full")
        case "reader", "delete", _:
            raise RuntimeError("no idea")
        case _:
            return None
