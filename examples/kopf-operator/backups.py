"""An operator: each Backup has a CronJob that makes it."""

from typing import Any

import kopf
from lightkube import ApiError, Client
from lightkube.resources.batch_v1 import CronJob

RETRY_S = 2


@kopf.on.startup()
def connect(memo: kopf.Memo, settings: kopf.OperatorSettings, **_: Any) -> None:
    memo.client = Client(field_manager="backup-operator")
    # The status has a schema of its own: kopf keeps its progress in annotations.
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage()


@kopf.on.login()
def login(**arguments: Any) -> kopf.ConnectionInfo | None:
    return kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)


@kopf.on.resume("backups.example.com", backoff=RETRY_S)
@kopf.on.create("backups.example.com", backoff=RETRY_S)
@kopf.on.update("backups.example.com", field="spec", backoff=RETRY_S)
def apply_cron_job(name: str, spec: kopf.Spec, memo: kopf.Memo, patch: kopf.Patch, **_: Any) -> None:
    """Server-side apply creates the CronJob or updates it, so that one handler serves all three."""
    cron_job = desired_cron_job(name, spec)
    # It gets the namespace of the Backup, and an owner reference: it is deleted together with it.
    kopf.adopt(cron_job)
    try:
        memo.client.apply(CronJob.from_dict(cron_job), force=True)
    except ApiError as error:
        if error.status.code != 422:
            raise  # kopf tries again in RETRY_S.
        # The same CronJob will be as invalid next time.
        patch.status.update(phase="Failed", message=error.status.message)
        raise kopf.PermanentError(error.status.message) from error
    patch.status.update(phase="Suspended" if spec["suspend"] else "Scheduled", message=None)


def desired_cron_job(name: str, spec: kopf.Spec) -> dict[str, Any]:
    container = {"name": "backup", "image": spec["image"]}
    pod = {"restartPolicy": "OnFailure", "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {
            "schedule": spec["schedule"],
            "suspend": spec["suspend"],
            "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": {"template": {"spec": pod}}},
        },
    }
