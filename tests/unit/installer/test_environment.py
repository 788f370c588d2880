from __future__ import annotations

import pytest

from discovery_engine.errors import InstallRefusedError
from discovery_engine.marketplace.entry import Input
from discovery_engine.marketplace.installer.offered_inputs import InputValues, environment
from tests.rows import rows

DECIDES = [
    *("LD_PRELOAD", "ld_preload", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "PATH", "Path"),
    *("PYTHONPATH", "PYTHONSTARTUP", "PYTHONUNBUFFERED", "NODE_OPTIONS", "NODE_PATH", "HOME"),
    *("NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "BASH_ENV", "BASH_FUNC_x%%"[:11]),
    *(
        "NPM_CONFIG_REGISTRY",
        "npm_config_registry",
        "UV_INDEX_URL",
        "PIP_INDEX_URL",
        "XDG_CONFIG_HOME",
    ),
    *("DOCKER_HOST", "DISCOVERY_CONFIG", "GIT_SSH_COMMAND", "JAVA_TOOL_OPTIONS", "PERL5OPT"),
    *("DOTNET_STARTUP_HOOKS", "TMPDIR", "SHELL", "IFS", "EDITOR", "CLASSPATH"),
]
HARMLESS = ["NODE_ENV", "LDAP_URL", "PATHS", "GIT_AUTHOR_NAME", "HOMEPAGE", "DB_PATH", "UVICORN"]


def variable(name: str, **members: object) -> Input:
    return Input(name, "environment", **members)  # type: ignore[arg-type]


@pytest.mark.requirement("INS-2")
@rows("name", DECIDES)
def test_a_variable_that_decides_what_is_run_is_never_set(name: str) -> None:
    for one in (variable(name, value="/x"), variable(name, is_required=True)):
        with pytest.raises(InstallRefusedError, match="decides what is run or loaded"):
            environment([one], InputValues("files", {}))

    found = environment([variable(name, default="/x")], InputValues("files", {}))

    assert found.variables == {}
    assert name in found.warnings[0]


@pytest.mark.requirement("INS-2")
@rows("name", HARMLESS)
def test_a_variable_that_decides_nothing_is_set(name: str) -> None:
    assert environment([variable(name, value="x")], InputValues("files", {})).variables == {
        name: "x"
    }


@pytest.mark.requirement("INS-2")
@rows("name", ["HTTPS_PROXY", "all_proxy", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_a_proxy_or_a_certificate_is_set_by_the_owner_alone(name: str) -> None:
    with pytest.raises(InstallRefusedError, match="decides with whom"):
        environment([variable(name, value="x")], InputValues("files", {}))
    assert environment([variable(name, default="x")], InputValues("files", {})).variables == {}

    given = environment([variable(name)], InputValues("files", {name: "http://proxy:1"}))

    assert given.variables == {name: "http://proxy:1"}


@pytest.mark.requirement("INS-2")
@rows("name", ["", "A=B", "A B", "A\0", "A\n", "1A", "-e", "${A}"])
def test_what_is_no_name_of_a_variable_is_refused(name: str) -> None:
    with pytest.raises(InstallRefusedError, match="is no name"):
        environment([variable(name, value="x")], InputValues("files", {}))
