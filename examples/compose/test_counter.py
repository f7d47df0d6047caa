from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import counter
import pytest
from kubernetes import client, config


@pytest.fixture
def api():
    with config.new_client_from_config() as api_client:
        yield client.CoreV1Api(api_client)


def test_no_increment_is_lost(api):
    name = f"counter-{uuid4()}"
    counter.create(api, name)
    with ThreadPoolExecutor(max_workers=4) as threads:
        counts = list(threads.map(lambda _: counter.increment(api, name), range(40)))
    assert sorted(counts) == list(range(1, 41))
