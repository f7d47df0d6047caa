"""An operator that applies a CronJob for each Backup."""

from typing import Any

import kopf
from lightkube import ApiError, Client
from lightkube.resources.batch_v1 import CronJob

RETRY_S = 2


@kopf.on.startup()
def connect(memo: kopf.Memo, settings: kopf.OperatorSettings, **_: Any) -> None:
    memo.client = Client(field_manager="backup-operator")
    # The schema of the status has no field for kopf's progress, so kopf stores the progress in annotations.
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage()


@kopf.on.login()
def login(**arguments: Any) -> kopf.ConnectionInfo | None:
    return kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)


@kopf.on.resume("backups.example.com", backoff=RETRY_S)
@kopf.on.create("backups.example.com", backoff=RETRY_S)
@kopf.on.update("backups.example.com", field="spec", backoff=RETRY_S)
def apply_cron_job(name: str, spec: kopf.Spec, memo: kopf.Memo, patch: kopf.Patch, **_: Any) -> None:
    """Apply the CronJob. Server-side apply creates or updates an object, so one handler is enough."""
    cron_job = desired_cron_job(name, spec)
    # Sets the namespace and an owner reference. If the Backup is deleted, the CronJob is also deleted.
    kopf.adopt(cron_job)
    try:
        memo.client.apply(CronJob.from_dict(cron_job), force=True)
    except ApiError as error:
        if error.status.code != 422:
            raise  # kopf retries after RETRY_S.
        # A retry cannot make an invalid CronJob valid.
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
