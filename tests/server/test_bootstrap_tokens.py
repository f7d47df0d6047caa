"""A node joins with a bootstrap token: it logs in with it for as long as the Secret is there.

Source: https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/.
"""

from __future__ import annotations

from typing import Final

from tests.support.api import Api, until_status
from tests.support.fixtures import server_with
from tests.support.server_process import ServerProcess

SECRETS: Final = "/api/v1/namespaces/kube-system/secrets"
AUTHENTICATION: Final = "/apis/authentication.k8s.io/v1"
TOKEN: Final = "abcdef.0123456789abcdef"
SECRET: Final = {
    "metadata": {"name": "bootstrap-token-abcdef"},
    "type": "bootstrap.kubernetes.io/token",
    "stringData": {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:kubeadm",
    },
}


server = server_with("--enable-bootstrap-token-auth")


def test_a_bootstrap_token_is_valid_while_its_secret_is_there(server: ServerProcess) -> None:
    myself = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": TOKEN}}
    user = {
        "username": "system:bootstrap:abcdef",
        "groups": ["system:bootstrappers", "system:bootstrappers:kubeadm", "system:authenticated"],
    }
    with Api(server) as api, api.as_caller(TOKEN) as node:
        assert node.send("POST", f"{AUTHENTICATION}/selfsubjectreviews", myself).status == 401
        assert api.send("POST", SECRETS, SECRET).status == 201

        # Secrets are looked up in the watch cache, as in Kubernetes.
        found = until_status(201, lambda: node.send("POST", f"{AUTHENTICATION}/selfsubjectreviews", myself))
        assert found.json["status"]["userInfo"] == user
        assert node.send("GET", SECRETS).status == 403
        reviewed = api.send("POST", f"{AUTHENTICATION}/tokenreviews", review).json["status"]
        assert (reviewed["authenticated"], reviewed["user"]) == (True, user)

        assert api.send("DELETE", f"{SECRETS}/bootstrap-token-abcdef").status == 200
        until_status(401, lambda: node.send("POST", f"{AUTHENTICATION}/selfsubjectreviews", myself))
        reviewed = api.send("POST", f"{AUTHENTICATION}/tokenreviews", review).json["status"]
        assert "authenticated" not in reviewed
