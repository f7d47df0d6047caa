"""A counter in a ConfigMap that many processes can increment at the same time."""

from kubernetes.client import ApiException, CoreV1Api


def create(api: CoreV1Api, name: str, namespace: str = "default") -> None:
    api.create_namespaced_config_map(namespace, {"metadata": {"name": name}, "data": {"count": "0"}})


def increment(api: CoreV1Api, name: str, namespace: str = "default") -> int:
    """Increments the count and returns it. Retries if the server rejects the write because of a conflict."""
    while True:
        counter = api.read_namespaced_config_map(name, namespace)
        count = int(counter.data["count"]) + 1
        counter.data["count"] = str(count)
        try:
            api.replace_namespaced_config_map(name, namespace, counter)
        except ApiException as error:
            if error.status != 409:
                raise
        else:
            return count
