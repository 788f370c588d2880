"""What is added to `docker run`, and what of it is refused."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from discovery_engine.config.serve_settings import SandboxSettings
from discovery_engine.upstream.stdio.sandbox.container_run import (
    MountGrants,
    confined_run,
    read_run,
)
from discovery_engine.upstream.stdio.sandbox.launch import SandboxError
from tests.rows import rows

NOTHING = SandboxSettings("docker")
NO_GRANTS = MountGrants((), ())
LIMITS = ["--memory=2048m", "--pids-limit=512"]
PRIVILEGES = ["--security-opt=no-new-privileges", "--cap-drop=ALL"]


def confined(
    line: str, sandbox: SandboxSettings = NOTHING, grants: MountGrants = NO_GRANTS
) -> list[str]:
    return confined_run("a", shlex.split(line), sandbox, grants)


@pytest.mark.requirement("SBX-30")
def test_a_container_gets_no_network_and_limits() -> None:
    assert confined("run -i --rm mcp/time --utc") == [
        *("run", "--network=none", *LIMITS, *PRIVILEGES),
        *("-i", "--rm", "mcp/time", "--utc"),
    ]


@pytest.mark.requirement("SBX-30")
def test_what_is_given_already_stays() -> None:
    line = "--context x run --memory 64m --pids-limit=8 --cap-drop NET_RAW --network none image"

    assert confined(line) == [
        *("--context", "x", "run", *PRIVILEGES),
        *("--memory", "64m", "--pids-limit=8", "--cap-drop", "NET_RAW", "--network", "none"),
        "image",
    ]


@pytest.mark.requirement("SBX-30")
@rows(
    "options",
    [
        *("--memory=0", "-m 0", "--memory 0m", "--pids-limit=-1", "--pids-limit -1"),
        *("--pids-limit=0", "--net container:other", "--network container:other"),
    ],
)
def test_no_limit_and_the_network_of_another_container_are_refused(options: str) -> None:
    granted = SandboxSettings("docker", network=True)

    with pytest.raises(SandboxError) as refused:
        confined(f"run {options} image", granted)

    assert (
        options.split(maxsplit=1)[0].split("=", maxsplit=1)[0].lstrip("-")[0]
        in refused.value.detail
    )


@pytest.mark.requirement("SBX-30")
@rows(
    "options",
    [
        "--privileged",
        "--privileged=true",
        "-i --privileged",
        "--cap-add SYS_ADMIN",
        "--cap-add=ALL",
        "--device /dev/sda",
        "--pid host",
        "--pid=container:other",
        "--ipc=host",
        "--userns=host",
        "--uts host",
        "--network host",
        "--net=host",
        "--network bridge",
        "-p 80:80",
        "-p80:80",
        "-P",
        "--publish=80:80",
        "--volumes-from other",
        "--security-opt seccomp=unconfined",
        "--security-opt apparmor=unconfined",
        "--use-api-socket",
        "--gpus all",
        "-v /:/host",
        "-v/:/host",
        "-itv /:/host",
        "-v=/:/host",
        "--volume=/var/run/docker.sock:/var/run/docker.sock",
        "-v ~/x:/x",
        "-v ./x:/x",
        "-v ../../etc:/x:ro",
        "--mount type=bind,source=/etc,target=/x",
        "--mount=type=bind,src=/etc,dst=/x,readonly",
        """--mount '"source=/etc",type=bind,target=/x'""",
        "--mount TYPE=bind,Source=/etc,target=/x",
        "--mount type=bind,target=/x",
        "--mount type=volume,source=x,target=/x,volume-opt=o=bind,volume-opt=device=/etc",
        "--mount type=npipe,source=x,target=y",
        r"-v C:\\Users:/x",
        "--mount 'type=bind\rsource=/etc,target=/x'",
        "--env-file ~/.env",
        "--env-file=/etc/passwd",
        "--cidfile /tmp/x",
        "--security-opt no-new-privileges:false",
        "--security-opt label=disable",
        "--replace --privileged",  # flags of other clients, which are not known
        "--name --privileged",
        "--env-host",
    ],
)
def test_what_leads_out_of_the_container_is_refused(options: str) -> None:
    with pytest.raises(SandboxError, match="lead out of the container"):
        confined(f"run {options} image")


@pytest.mark.requirement("SBX-30")
def test_a_grant_permits_and_is_mounted(tmp_path: Path) -> None:
    sandbox = SandboxSettings("docker", network=True)
    grants = MountGrants((str(tmp_path / "read"),), (str(tmp_path / "write"),))
    mounted = f"-v {tmp_path}/read/x:/x:ro -v {tmp_path}/write:/y --network host -p 1:1"

    arguments = confined(f"run {mounted} image", sandbox, grants)

    assert f"--volume={tmp_path}/read:{tmp_path}/read:ro" in arguments
    assert f"--volume={tmp_path}/write:{tmp_path}/write" not in arguments
    assert "--network=none" not in arguments
    with pytest.raises(SandboxError):  # to be read alone
        confined(f"run -v {tmp_path}/read:/x image", sandbox, grants)


@pytest.mark.requirement("SBX-30")
def test_a_link_does_not_lead_around_the_grants(tmp_path: Path) -> None:
    (tmp_path / "granted").mkdir()
    (tmp_path / "granted" / "link").symlink_to("/etc")
    grants = MountGrants((), (str(tmp_path / "granted"),))

    with pytest.raises(SandboxError):
        confined(f"run -v {tmp_path}/granted/link:/x image", NOTHING, grants)
    with pytest.raises(SandboxError):
        confined(f"run -v {tmp_path}/granted/../x:/x image", NOTHING, grants)


@pytest.mark.requirement("SBX-30")
@rows("line", ["exec box sh", "run", "run -i", "compose run x", "", "mcp gateway"])
def test_another_command_cannot_be_confined(line: str) -> None:
    with pytest.raises(SandboxError, match="only a command that is `docker run`"):
        confined(line)


@pytest.mark.requirement("SBX-30")
def test_options_of_the_program_are_not_read() -> None:
    assert confined("run -i image --privileged -v /:/host --network=host")[-4:] == [
        *("--privileged", "-v", "/:/host", "--network=host")
    ]


@pytest.mark.requirement("SBX-30")
@rows(
    "options", ["-v data:/data", "--mount type=volume,source=data,target=/x", "--pid=", "-e A=host"]
)
def test_what_stays_inside_is_not(options: str) -> None:
    assert shlex.split(options) == confined(f"run {options} image")[-1 - len(options.split()) : -1]


def test_options_end_at_the_image() -> None:
    run = read_run(shlex.split("container run -it -e A --name=x --rm image -v y"))

    assert run is not None
    assert [tuple(option) for option in run.options] == [
        *(("interactive", ""), ("tty", ""), ("env", "A"), ("name", "x"), ("rm", ""))
    ]
