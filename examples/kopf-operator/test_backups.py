import pytest

from apiserver.testing import Answer, Match

pytestmark = [pytest.mark.apiserver(manifests="deploy"), pytest.mark.usefixtures("operator")]
BACKUPS = "/apis/example.com/v1/namespaces/default/backups"
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"


def backup(**spec):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Backup",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "image": "backup:1.0", **spec},
    }


def wait_for_phase(kube, phase):
    return kube.wait_for(
        "Backup", "nightly", "default", until=lambda it: it["status"]["phase"] == phase, timeout_s=60
    )


def test_a_backup_has_a_cron_job(kube):
    kube.load(backup())
    wait_for_phase(kube, "Scheduled")
    _, cron_job = kube.request("GET", f"{CRON_JOBS}/nightly")
    assert cron_job["spec"]["schedule"] == "0 3 * * *"
    assert cron_job["metadata"]["ownerReferences"][0]["kind"] == "Backup"


def test_a_change_reaches_the_cron_job(kube):
    kube.load(backup())
    wait_for_phase(kube, "Scheduled")
    kube.load(backup(suspend=True))
    wait_for_phase(kube, "Suspended")
    _, cron_job = kube.request("GET", f"{CRON_JOBS}/nightly")
    assert cron_job["spec"]["suspend"] is True


def test_the_cron_job_is_deleted_with_its_backup(kube):
    kube.load(backup())
    wait_for_phase(kube, "Scheduled")
    kube.request("DELETE", f"{BACKUPS}/nightly")
    kube.wait_until_gone("CronJob", "nightly", "default")


def test_an_invalid_schedule_is_reported(kube):
    kube.load(backup(schedule="every night"))
    assert "schedule" in wait_for_phase(kube, "Failed")["status"]["message"]
    kube.load(backup())
    assert "message" not in wait_for_phase(kube, "Scheduled")["status"]


def test_the_operator_retries_when_the_server_is_overloaded(kube):
    kube.faults.inject(Answer(503), Match(resource="cronjobs", verb="patch"), times=1)
    kube.load(backup())
    wait_for_phase(kube, "Scheduled")
    assert [sent.code for sent in kube.requests(resource="cronjobs.batch")] == [503, 201]


def test_the_operator_comes_to_rest(kube):
    kube.load(backup())
    wait_for_phase(kube, "Scheduled")
    kube.assert_quiet("Backup", "CronJob", namespace="default", seconds=1)
