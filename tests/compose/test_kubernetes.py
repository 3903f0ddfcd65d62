"""The manifests of compose/kubernetes, without a cluster: valid, of one piece, and in step with the server."""

from __future__ import annotations

import inspect
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from gymwire.servers.app import DRAIN_GRACE_S
from gymwire.servers.commands.serve import LEAVE_GRACE_S, serve
from gymwire.servers.sessions import CLOSE_GRACE_S

from tests.serving import ROOT
from tests.worlds import BUNDLED

FOLDER = ROOT / "compose" / "kubernetes"
FILES = sorted(path.name for path in FOLDER.glob("*.yaml") if path.name != "kustomization.yaml")
Manifest = dict[str, Any]


def read(name: str) -> list[Manifest]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


MANIFESTS = [manifest for name in FILES for manifest in read(name)]


def of(kind: str) -> list[Manifest]:
    return [manifest for manifest in MANIFESTS if manifest["kind"] == kind]


def named(kind: str, name: str) -> Manifest:
    return next(manifest for manifest in of(kind) if manifest["metadata"]["name"] == name)


PODS = {
    manifest["metadata"]["name"]: manifest["spec"]["template"] for manifest in (*of("Deployment"), *of("StatefulSet"))
}
ENVS = PODS["envs"]["spec"]
SERVER = ENVS["containers"][0]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda m: f"{m['kind']}-{m['metadata']['name']}")
def test_a_manifest_is_valid(manifest: Manifest) -> None:
    kubernetes_validate.validate(manifest, "1.30", strict=True)
    assert manifest["metadata"].get("namespace", "gymwire") == "gymwire"


def test_a_wrong_manifest_would_be_found() -> None:
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(
            {"apiVersion": "v1", "kind": "Service", "spec": {"ports": "x"}}, "1.30", strict=True
        )


def test_all_files_are_applied_and_none_holds_a_secret() -> None:
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    assert sorted(kustomization["resources"]) == FILES
    assert not of("Secret")
    readme = (FOLDER / "README.md").read_text()
    assert all(key in readme for key in ("redis-password=", "store=", "tokens=", "signing-key="))


@pytest.mark.parametrize("pod", PODS.values(), ids=PODS)
def test_a_pod_may_do_little(pod: Manifest) -> None:
    spec = pod["spec"]
    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False and spec["enableServiceLinks"] is False
    for container in spec["containers"]:
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] and not rights["allowPrivilegeEscalation"]
        assert rights["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["requests"].keys() >= {"cpu", "memory"} and container["resources"]["limits"]
        assert {"readinessProbe", "livenessProbe"} <= container.keys()
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        claims = {claim["metadata"]["name"] for s in of("StatefulSet") for claim in s["spec"]["volumeClaimTemplates"]}
        assert mounted <= {volume["name"] for volume in spec.get("volumes", ())} | claims


def selectors() -> Iterator[tuple[str, dict[str, str]]]:
    for manifest in MANIFESTS:
        kind, spec = manifest["kind"], manifest.get("spec", {})
        name = f"{kind} {manifest['metadata']['name']}"
        if kind == "Service":
            yield name, spec["selector"]
        elif kind == "NetworkPolicy":
            peers = [peer for rule in (*spec.get("ingress", ()), *spec.get("egress", ())) for peer in rule_peers(rule)]
            yield from ((name, p["podSelector"]["matchLabels"]) for p in [spec, *peers] if p.get("podSelector"))
        elif kind in ("Deployment", "StatefulSet", "PodDisruptionBudget"):
            yield name, spec["selector"]["matchLabels"]


def rule_peers(rule: Manifest) -> list[Manifest]:
    return [*rule.get("from", ()), *rule.get("to", ())]


@pytest.mark.parametrize(("name", "labels"), list(selectors()))
def test_a_selector_meets_exactly_one_kind_of_pod(name: str, labels: dict[str, str]) -> None:
    assert sum(labels.items() <= pod["metadata"]["labels"].items() for pod in PODS.values()) == 1


def test_a_replica_has_time_to_drain() -> None:
    before_s = float(SERVER["lifecycle"]["preStop"]["exec"]["command"][1])
    needed_s = before_s + DRAIN_GRACE_S + LEAVE_GRACE_S + CLOSE_GRACE_S
    assert needed_s <= ENVS["terminationGracePeriodSeconds"]


def test_the_server_takes_its_arguments() -> None:
    command, *words = SERVER["args"]
    options = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert command == "serve"
    assert {option.removeprefix("--").replace("-", "_") for option in options} <= inspect.signature(
        serve
    ).parameters.keys()
    environments = [word for word in words if not word.startswith("--")]
    assert environments and all(BUNDLED[name].replayable for name in environments)
    ports = {port["name"]: port["containerPort"] for port in SERVER["ports"]}
    assert f"--port={ports['http']}" in words
    mounts = {mount["name"]: mount["mountPath"] for mount in SERVER["volumeMounts"]}
    files = {item["path"] for volume in ENVS["volumes"] for item in volume.get("secret", {}).get("items", ())}
    assert files == {"tokens", "signing-key"}
    given = {f"--token-file={mounts['secret']}/tokens", f"--signing-key-file={mounts['secret']}/signing-key"}
    assert given <= set(words)


def test_the_gateway_has_room_for_all_replicas() -> None:
    scaling, envs = named("HorizontalPodAutoscaler", "envs")["spec"], named("Deployment", "envs")["spec"]
    assert scaling["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "envs"}
    variables = {item["name"]: item["value"] for item in PODS["gateway"]["spec"]["containers"][0]["env"]}
    most = scaling["maxReplicas"] + envs["strategy"]["rollingUpdate"]["maxSurge"]
    assert int(variables["MAX_REPLICAS"]) >= most
    assert "replicas" not in envs  # applying the manifests again must not undo the autoscaler's work


def test_redis_writes_before_it_answers() -> None:
    arguments = PODS["redis"]["spec"]["containers"][0]["args"]
    pairs = dict(zip(arguments[::2], arguments[1::2], strict=True))
    assert (pairs["--appendonly"], pairs["--appendfsync"], pairs["--maxmemory-policy"]) == (
        "yes",
        "always",
        "noeviction",
    )


def test_the_gateways_configuration_is_composes(tmp_path: Path) -> None:
    source = ROOT / "compose" / "haproxy.cfg"
    made = subprocess.run(["sed", "-f", FOLDER / "haproxy.sed", source], capture_output=True, text=True, check=True)
    before, after = source.read_text().splitlines(), made.stdout.splitlines()
    changed = [new.split() for old, new in zip(before, after, strict=True) if old != new]
    assert changed[0] == ["parse-resolv-conf"] and len(changed) == 2
    assert changed[1][-1] == "envs.gymwire.svc.cluster.local:8200"
    if (haproxy := shutil.which("haproxy")) is None:
        pytest.skip("haproxy is not installed: its configuration was compared, not checked")
    (tmp_path / "haproxy.cfg").write_text(made.stdout)
    check = [haproxy, "-c", "-f", str(tmp_path / "haproxy.cfg")]
    done = subprocess.run(check, env={"MAX_REPLICAS": "9"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
