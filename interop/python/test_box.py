"""The stock Python client on a box, as any project's tests would use it."""

import os
import subprocess
import tempfile
import unittest

from kubernetes import client, config, utils, watch
from kubernetes.client.exceptions import ApiException


def start_box(folder):
    """Runs `aplomb box`; returns its process once it serves, and its kubeconfig."""
    kubeconfig = os.path.join(folder, "kubeconfig")
    command = [os.environ.get("APLOMB", "aplomb"), "box", "--kubeconfig", kubeconfig]
    box = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert box.stdout.readline().startswith("ready "), "the box did not start"
    return box, kubeconfig


class OnABox(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.box, kubeconfig = start_box(cls.folder.name)
        config.load_kube_config(kubeconfig)
        cls.core = client.CoreV1Api()

    @classmethod
    def tearDownClass(cls):
        cls.box.terminate()
        cls.box.wait()
        cls.box.stdout.close()
        cls.folder.cleanup()

    def test_an_object_is_made_changed_and_deleted(self):
        body = {"metadata": {"name": "settings"}, "data": {"color": "red"}}
        made = self.core.create_namespaced_config_map("default", body)
        self.assertIsNotNone(made.metadata.uid)
        self.core.patch_namespaced_config_map("settings", "default", {"data": {"color": "blue"}})
        read = self.core.read_namespaced_config_map("settings", "default")
        self.assertEqual(read.data, {"color": "blue"})
        self.core.delete_namespaced_config_map("settings", "default")
        with self.assertRaises(ApiException) as refused:
            self.core.read_namespaced_config_map("settings", "default")
        self.assertEqual(refused.exception.status, 404)

    def test_a_deployment_has_pods(self):
        template = {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "registry.example.com/web:1"}]}}
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        utils.create_from_dict(client.ApiClient(), {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
        seen = set()
        for event in watch.Watch().stream(self.core.list_namespaced_pod, "default", label_selector="app=web", timeout_seconds=120):
            seen.add(event["object"].metadata.name)
            if len(seen) == 2:
                break
        self.assertEqual(len(seen), 2)

    def test_a_custom_resource_is_served_and_checked(self):
        schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        crd = {"metadata": {"name": "boats.example.com"}, "spec": {
            "group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat"}}}
        client.ApiextensionsV1Api().create_custom_resource_definition(crd)
        boats = client.CustomObjectsApi()
        boat = {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "one"}, "spec": {"size": 3}}
        made = boats.create_namespaced_custom_object("example.com", "v1", "default", "boats", boat)
        self.assertEqual(made["metadata"]["generation"], 1)
        boat["metadata"]["name"], boat["spec"]["size"] = "two", "large"
        with self.assertRaises(ApiException) as refused:
            boats.create_namespaced_custom_object("example.com", "v1", "default", "boats", boat)
        self.assertEqual(refused.exception.status, 422)


if __name__ == "__main__":
    unittest.main()
