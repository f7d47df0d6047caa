"""An operator that runs Backups: it applies a CronJob for each."""

from typing import Any

import kopf
from lightkube import ApiError, Client
from lightkube.resources.batch_v1 import CronJob

RETRY_S = 2


@kopf.on.startup()
def connect(memo: kopf.Memo, settings: kopf.OperatorSettings, **_: Any) -> None:
    memo.client = Client(field_manager="backup-operator")
    # The schema of the status has no place for kopf's progress: kopf keeps it in annotations.
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage()


@kopf.on.login()
def login(**arguments: Any) -> kopf.ConnectionInfo | None:
    return kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)


@kopf.on.resume("backups.example.com", backoff=RETRY_S)
@kopf.on.create("backups.example.com", backoff=RETRY_S)
@kopf.on.update("backups.example.com", field="spec", backoff=RETRY_S)
def apply_cron_job(name: str, spec: kopf.Spec, memo: kopf.Memo, patch: kopf.Patch, **_: Any) -> None:
    """Apply the CronJob. Server-side apply creates or updates it, so one handler serves all three."""
    cron_job = desired_cron_job(name, spec)
    # Sets the namespace and an owner reference: the CronJob is deleted together with its Backup.
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
