"""The files of `examples/fleet`: what they name is there, and what they run works."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from discovery_cli.program import cli
from discovery_engine.config.loading.loader import load_settings
from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.settings import Settings
from discovery_engine.engine.owner.fleet import JOB_STATES, FleetStatus
from discovery_engine.store.availability import RegistryHealth
from discovery_engine.store.call_log.call_log import CallLog
from discovery_engine.store.call_log.log_entry import NO_ERRORS
from discovery_engine.store.webhooks import WebhookState
from discovery_server.http.exposition import exposition
from tests.fleet import confinement
from tests.fleet.confinement import confined
from tests.fleet.example import (
    CADDYFILE,
    FOLDER,
    PORT,
    PROGRAM,
    UNITS,
    Deployed,
    compose,
    container,
    discovery_services,
    manifests,
    pod,
    services,
    unit,
    unit_lines,
)
from tests.fleet.fleet import TOKEN, Gateway, Process, wait_until
from tests.fleet.loopback_servers import LoopbackServers, open_servers
from tests.ports import free_port
from tests.postgres import PostgresServer

ROOT = FOLDER.parents[1]
KNOWN_KEYS = {
    "Unit": {"Description", "After", "Wants"},
    "Service": {
        "CapabilityBoundingSet",
        "Environment",
        "EnvironmentFile",
        "ExecReload",
        "ExecStart",
        "KillSignal",
        "NoNewPrivileges",
        "PrivateTmp",
        "ProtectHome",
        "ProtectSystem",
        "Restart",
        "RestartSec",
        "RestrictSUIDSGID",
        "StateDirectory",
        "TimeoutStopSec",
        "Type",
        "UMask",
        "User",
    },
    "Install": {"WantedBy"},
}
DEPLOYED = {
    "containers": (container("gateway-1"), container("worker")),
    "pods": (pod("StatefulSet"), pod("Deployment")),
    "units": (unit("discovery-gateway.service"), unit("discovery-worker@.service", "1")),
}
confining = pytest.mark.skipif(bool(confinement.missing()), reason=confinement.missing())


@pytest.mark.requirement("FLT-52")
@pytest.mark.parametrize("one", [one for pair in DEPLOYED.values() for one in pair])
def test_the_example_runs_commands_that_there_are(one: Deployed) -> None:
    first, name, *options = one.words
    program = click.Context(cli, **cli.context_settings)
    command = cli.get_command(program, name)

    assert first == PROGRAM
    assert command
    # A command keeps the help option that it is asked for first: below the program it is `-h`.
    context = click.Context(command, parent=program)
    command.make_parser(context).parse_args(list(options))


@pytest.mark.requirement("FLT-52")
def test_the_configuration_is_valid_and_names_no_secret() -> None:
    environ = {"DATABASE_URL": "postgresql://somewhere/db", "PATH": ""}
    settings = load_settings(FOLDER / "discovery.yaml", environ=environ)

    assert settings.registry.url == "${DATABASE_URL}"
    assert settings.warnings == ()


@pytest.mark.requirement("FLT-52")
def test_the_containers_are_those_of_the_compose_specification() -> None:
    checked = subprocess.run(
        [
            sys.executable, "-m", "check_jsonschema",
            "--builtin-schema", "vendor.compose-spec", FOLDER / "compose.yaml",
        ],
        check=False,
        capture_output=True,
        text=True,
    )  # fmt: skip

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.requirement("FLT-52")
def test_what_the_containers_name_is_there() -> None:
    text = (FOLDER / "compose.yaml").read_text("utf-8")
    template = (FOLDER / ".env.example").read_text("utf-8")
    build = discovery_services()["worker"]["build"]
    context = (FOLDER / build["context"]).resolve()
    mounted = [volume for one in services().values() for volume in one.get("volumes", ())]
    sources = {volume.split(":")[0] for volume in mounted if ":" in volume}
    files = {source for source in sources if source.startswith("./")}

    assert set(re.findall(r"^(\w+)=$", template, re.MULTILINE)) == set(
        re.findall(r"\$\{(\w+):\?", text)
    )
    assert context == ROOT
    assert (context / "Dockerfile").is_file()
    assert [file for file in files if not (FOLDER / file).is_file()] == []
    assert sources - files == set(compose()["volumes"])


@pytest.mark.requirement("SRV-84", "FLT-52")
def test_the_balancer_is_led_to_each_gateway_by_name_and_port() -> None:
    gateways = {name: one for name, one in services().items() if name.startswith("gateway-")}
    balancer = CADDYFILE.read_text("utf-8")

    assert set(services()["balancer"]["depends_on"]) == set(gateways)
    assert services()["balancer"]["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert f"{{$BALANCER_ADDRESS::{PORT}}}" in balancer
    for name, gateway in gateways.items():
        assert gateway["environment"]["DISCOVERY_GATEWAY_NAME"] == name
        assert gateway["command"][1:3] == ["--http", f"0.0.0.0:{PORT}"]
        assert rf"Mcp-Session-Id \.{name}$" in balancer
        assert f":{name}:{PORT}}}" in balancer


@pytest.mark.requirement("FLT-52")
def test_containers_of_the_program_can_do_no_more_than_they_need() -> None:
    for one in discovery_services().values():
        assert one["read_only"]
        assert one["cap_drop"] == ["ALL"]
        assert one["security_opt"] == ["no-new-privileges:true"]
        state = one["environment"]["DISCOVERY_DATA_DIR"]
        writable = [volume for volume in one["volumes"] if not volume.endswith(":ro")]
        assert [volume.rpartition(":")[2] for volume in writable] == [state]
        assert one["tmpfs"] == ["/tmp"]
    assert "USER discovery" in (ROOT / "Dockerfile").read_text("utf-8").splitlines()


@pytest.mark.requirement("FLT-52")
def test_pods_of_the_chart_find_what_they_name_and_can_do_no_more_than_they_need() -> None:
    by_kind = {one["kind"]: one for one in manifests()}
    [(name, text)] = by_kind["ConfigMap"]["data"].items()
    settings = parse_settings(text.encode(), file=name)

    assert by_kind.keys() == {"ConfigMap", "Service", "StatefulSet", "Deployment"}
    assert (settings.name, settings.registry.url) == ("fleet", "${DATABASE_URL}")
    service = by_kind["Service"]["spec"]
    assert by_kind["StatefulSet"]["spec"]["serviceName"] == by_kind["Service"]["metadata"]["name"]
    for kind in ("StatefulSet", "Deployment"):
        spec = by_kind[kind]["spec"]
        labels, inner = spec["template"]["metadata"]["labels"], spec["template"]["spec"]
        [container] = inner["containers"]
        security = container["securityContext"]
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        claims = [claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", ())]
        volumes = {volume["name"]: volume for volume in inner["volumes"]}
        config = volumes["configuration"]["configMap"]["name"]

        assert spec["selector"]["matchLabels"] == labels
        assert config == by_kind["ConfigMap"]["metadata"]["name"]
        assert mounted == {
            "configuration": "/etc/discovery", "data": "/var/lib/discovery", "tmp": "/tmp",
        }  # fmt: skip
        assert {*volumes, *claims} == mounted.keys()
        assert inner["securityContext"]["runAsNonRoot"]
        assert security["readOnlyRootFilesystem"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        if kind == "StatefulSet":
            assert service["selector"] == labels
            [port] = container["ports"]
            assert service["ports"][0]["targetPort"] == port["name"]
            assert container["args"][2] == f"0.0.0.0:{port['containerPort']}"


@pytest.mark.requirement("FLT-52", "MTR-10")
def test_alerts_and_the_board_name_metrics_that_gateways_have(tmp_path: Path) -> None:
    rules = yaml.safe_load((FOLDER / "monitoring" / "alerts.yaml").read_text("utf-8"))
    board = json.loads((FOLDER / "monitoring" / "grafana.json").read_text("utf-8"))
    asked = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    asked += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    fleet = FleetStatus((), 0, 0.0)
    health, webhooks = RegistryHealth(None, None, 0, 0), [WebhookState("chat")]
    log = CallLog(tmp_path, "one", Settings)

    text, _ = exposition(log, (), "text/plain", health, fleet, webhooks)

    families = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text.decode(), re.MULTILINE))
    parts = ("_bucket", "_count", "_sum")
    names = {
        name + part
        for name, kind in families.items()
        for part in (parts if kind == "histogram" else ("",))
    }
    assert not set(re.findall(r"\bdiscovery_\w+", " ".join(asked))) - names
    assert set(re.findall(r'state="(\w+)"', " ".join(asked))) <= {*JOB_STATES}
    assert set(re.findall(r'outcome!~"([^"]+)"', " ".join(asked))) == {"ok|task|cancelled"}
    assert {"ok", "task", "cancelled"} == {*NO_ERRORS} - {""}


@pytest.mark.thorough
@pytest.mark.requirement("FLT-52")
def test_the_image_is_made_of_a_wheel_and_has_no_file_with_secrets(tmp_path: Path) -> None:
    source, built, installed = tmp_path / "src", tmp_path / "dist", tmp_path / "installed"
    for file in sent_to_the_builder():
        (source / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, source / file)
    steps = (ROOT / "Dockerfile").read_text("utf-8")
    wheel = re.search(r"RUN pip (wheel .*) --wheel-dir /dist /src$", steps, re.MULTILINE)
    install = re.search(
        r"pip (install .*) \"\$\(echo /dist/\*\.whl\)\[\$EXTRAS\]\"$", steps, re.MULTILINE
    )
    extras = re.search(r"ARG EXTRAS=(\w+)$", steps, re.MULTILINE)
    assert wheel
    assert install
    assert extras

    pip(*wheel[1].split(), "--no-build-isolation", "--wheel-dir", built, source)
    [file] = built.glob("*.whl")
    words = ["--no-deps", "--no-index", "--target", installed]
    pip(*install[1].split(), *words, f"{file}[{extras[1]}]")
    version = [installed / "bin" / "discovery", "--version"]
    done = subprocess.run(version, check=True, capture_output=True, env={"PYTHONPATH": installed})

    assert done.stdout.startswith(b"discovery ")
    assert not [path for path in source.rglob("*") if path.name.startswith(".env")]
    [metadata] = installed.glob("*.dist-info/METADATA")
    assert f"Provides-Extra: {extras[1]}" in metadata.read_text("utf-8")
    licences = {file.name for file in (metadata.parent / "licenses").iterdir()}
    assert licences == {"LICENSE", "LICENSE-APACHE", "NOTICE"}


def pip(*words: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", *words],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": ""},  # without npm, which would fetch the modules of the page
    )
    assert done.returncode == 0, done.stderr


def sent_to_the_builder() -> Iterator[Path]:
    """The files of the repository that the ignore file of the image lets through."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    ignored, *lines = [line for line in lines if line and not line.startswith("#")]
    assert ignored == "*"
    allowed = [line.removeprefix("!") for line in lines if line.startswith("!")]
    assert [line for line in lines if not line.startswith("!")] == ["**/__pycache__"]
    for name in allowed:
        path = ROOT / name
        assert path.exists(), name
        for file in [path] if path.is_file() else path.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(ROOT)


@pytest.mark.requirement("FLT-52")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_have_known_keys_and_are_restarted(path: Path) -> None:
    lines = unit_lines(path.name)
    service = dict(lines["Service"])

    assert {
        name: {key for key, _ in pairs} - KNOWN_KEYS[name] for name, pairs in lines.items()
    } == {
        "Unit": set(),
        "Service": set(),
        "Install": set(),
    }
    # The program says nothing to systemd when it is ready, so its type is not `notify`.
    assert service["Type"] == "exec"
    assert service["Restart"] == "always"
    assert service["EnvironmentFile"] == "/etc/discovery/secrets.env"
    assert service["ProtectSystem"] == "strict"


@pytest.mark.requirement("FLT-52")
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_finds_nothing_wrong_with_a_unit(path: Path, tmp_path: Path) -> None:
    here = tmp_path / path.name
    here.write_text(path.read_text("utf-8").replace(PROGRAM, str(confinement.PROGRAM)), "utf-8")

    checked = subprocess.run(
        ["systemd-analyze", "verify", here], check=False, capture_output=True, text=True
    )

    assert (checked.returncode, checked.stderr) == (0, "")


def placed(folder: Path, name: str, one: Deployed) -> list[str]:
    """The words before a command that runs where little can be written."""
    stage, data, config = folder / f"{name}-stage", folder / name, folder / "discovery.yaml"
    stage.mkdir()
    data.mkdir(exist_ok=True)
    config.touch()
    return confined(stage, config=config, data=data, state=one.state)


class Machine:
    """Where the programs of the example run: their paths, and a database of their own."""

    def __init__(self, folder: Path, url: str, gateway: Deployed) -> None:
        self.folder = folder
        self.port = free_port()
        self._secrets = {"DATABASE_URL": url, "DISCOVERY_TOKEN": TOKEN}
        self._gateway = gateway
        self._count = 0

    def start(self, kind: type[Process], name: str, one: Deployed) -> Process:
        words = [word.replace(f":{PORT}", f":{self.port}") for word in one.words]
        (self.folder / f"{name}-log").mkdir()
        return kind(
            name,
            [*placed(self.folder, name, one), *words],
            self.folder / f"{name}-log",
            {**one.environ, **self._secrets},
        )

    def run(self, *words: str) -> str:
        """What a command prints beside the gateway, as `docker compose exec gateway-1` runs it."""
        self._count += 1
        stage = self.folder / f"command-{self._count}"
        stage.mkdir()
        config, data = self.folder / "discovery.yaml", self.folder / "gateway"
        around = confined(stage, config=config, data=data, state=self._gateway.state)
        done = subprocess.run(
            [*around, PROGRAM, *words],
            check=False,
            capture_output=True,
            text=True,
            env={**self._gateway.environ, **self._secrets},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def has_listed_all(self) -> bool:
        status = json.loads(self.run("--json", "fleet", "status"))
        return bool(status["counts"]["enabled"] == 2)


@pytest.fixture
def servers() -> Iterator[LoopbackServers]:
    with open_servers(["deepwiki", "mail"]) as opened:
        opened["mail"].tools = {"send_mail": "Send a mail to a person"}
        yield opened


@confining
@pytest.mark.e2e
@pytest.mark.requirement("FLT-52")
@pytest.mark.parametrize("kind", DEPLOYED)
def test_gateway_and_worker_need_nothing_that_their_machine_does_not_let_them_have(
    kind: str, postgres_server: PostgresServer, tmp_path: Path, servers: LoopbackServers
) -> None:
    one, other = DEPLOYED[kind]
    text = (FOLDER / "discovery.yaml").read_text("utf-8")
    text = text.replace("https://mcp.deepwiki.com/mcp", servers["deepwiki"].url)
    (tmp_path / "discovery.yaml").write_text(text, "utf-8")
    machine = Machine(tmp_path, postgres_server.create_database(), one)
    gateway = machine.start(Gateway, "gateway", one)
    assert isinstance(gateway, Gateway)
    gateway.address = f"http://127.0.0.1:{machine.port}"
    worker = machine.start(Process, "worker", other)
    try:
        gateway.wait_healthy()
        machine.run("add", "mail", "--url", servers["mail"].url, "--to", "registry", "--yes")
        wait_until(lambda: "mail:send_mail" in gateway.found("send a mail"), "it is found")
        wait_until(machine.has_listed_all, "a worker has listed both servers")
        assert gateway.call("execute_tool", tool="mail:send_mail")["content"][0]["text"]
        reload(gateway)
        wait_until(lambda: "was reloaded" in gateway.log.read_text("utf-8"), "it reloads")
        healthy = health_check(machine.port)
        codes = [gateway.stop(), worker.stop()]
        ill = health_check(machine.port)
    finally:
        gateway.kill()
        worker.kill()

    assert codes == [0, 0]
    assert (healthy, ill) == (0, 1)


@pytest.mark.requirement("FLT-52")
def test_the_health_check_of_the_database_finds_it(postgres_server: PostgresServer) -> None:
    kind, program, *words = services()["database"]["healthcheck"]["test"]

    codes = [
        subprocess.run(
            [postgres_server.programs / program, *words], check=False, env={"PGPORT": str(port)}
        ).returncode
        for port in (postgres_server.port, free_port())
    ]

    assert kind == "CMD"
    assert codes == [0, 2]


def reload(gateway: Gateway) -> None:
    """Do what `systemctl reload` does."""
    command = dict(unit_lines("discovery-gateway.service")["Service"])["ExecReload"]
    words = [word.replace("$MAINPID", str(gateway.pid)) for word in command.split()]
    subprocess.run(words, check=True)


def health_check(port: int) -> int:
    """The exit code of the health check of a gateway's container."""
    kind, python, *words = services()["gateway-1"]["healthcheck"]["test"]
    assert (kind, python) == ("CMD", "python")
    words = [word.replace(f":{PORT}", f":{port}") for word in words]
    return subprocess.run([sys.executable, *words], check=False, capture_output=True).returncode
