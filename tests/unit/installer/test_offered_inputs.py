"""What an entry may set and ask for: values, variables, arguments, and addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.errors import InstallRefusedError, InvalidInputError
from discovery_engine.marketplace.entry import Input, PackageOffer, RemoteOffer
from discovery_engine.marketplace.installer.offered_inputs import (
    InputValues,
    address,
    environment,
    headers,
    joined,
    literal,
    refused_hint,
    runtime_options,
    server_arguments,
)
from discovery_engine.secrets.references import split
from tests.rows import rows


def an_input(name: str = "FOLDER", **members: Any) -> Input:
    return Input(name, members.pop("kind", "environment"), **members)


def texts(one: Input, stored: frozenset[str] = frozenset(), **given: Any) -> tuple[str, ...]:
    return InputValues("files", given, stored=stored).texts(one)


@pytest.mark.requirement("INS-10")
@rows(
    ("members", "value", "expected"),
    [
        pytest.param({}, "plain", "plain", id="text"),
        pytest.param({"choices": ("a", "b")}, "b", "b", id="choice"),
        pytest.param({"format": "number"}, "1e3", "1e3", id="number"),
        pytest.param({"format": "boolean"}, "Yes", "true", id="boolean"),
        pytest.param({}, "${MY_FOLDER}", "${MY_FOLDER}", id="reference"),
        pytest.param({"choices": ("a",)}, "${MY_CHOICE}", "${MY_CHOICE}", id="reference to choice"),
    ],
)
def test_a_value_that_fits_is_taken(members: dict[str, Any], value: str, expected: str) -> None:
    assert texts(an_input(**members), FOLDER=value) == (expected,)


@pytest.mark.requirement("INS-10")
@rows(
    ("members", "value", "message"),
    [
        pytest.param({"choices": ("a", "b")}, "c", 'must be one of "a", "b"', id="choice"),
        pytest.param({"format": "number"}, "many", "must be a number", id="number"),
        pytest.param({"format": "number"}, "nan", "must be a number", id="no number"),
        pytest.param({"format": "boolean"}, "2", "must be true or false", id="boolean"),
        pytest.param({}, "a\0b", "control character (U+0000)", id="zero"),
        pytest.param({}, "a\nb", "control character (U+000A)", id="line end"),
        pytest.param({}, "${", "no closing", id="malformed reference"),
        pytest.param({}, ["a", "b"], "takes one value, not 2", id="two values"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_name(
    members: dict[str, Any], value: Any, message: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        texts(an_input(**members), FOLDER=value)

    assert caught.value.message.startswith("FOLDER")
    assert message in caught.value.message


@pytest.mark.requirement("INS-2")
def test_values_for_a_publisher_that_declares_nothing_are_harmless_variables() -> None:
    values = InputValues("files", {"MODE": "x", "not a name": "x", "PATH": "/tmp"})

    variables, left_out = environment(values.undeclared(), values)

    assert variables == {"MODE": "x"}
    assert left_out == ("the variable PATH is left out: it decides what is run or loaded",)


@pytest.mark.requirement("INS-10")
def test_a_value_that_nothing_asks_for_is_refused_with_the_nearest() -> None:
    values = InputValues("files", {"FOLDR": "x"})
    values.texts(an_input())

    with pytest.raises(InvalidInputError, match="takes no FOLDR") as caught:
        values.require_known()

    assert "FOLDER" in caught.value.hint


@pytest.mark.requirement("INS-10")
def test_the_home_folder_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")

    assert texts(an_input(), FOLDER="~/notes") == ("/home/ada/notes",)
    assert texts(an_input(), FOLDER="~ada") == ("~ada",)


@pytest.mark.requirement("INS-10")
def test_a_template_is_filled_with_its_variables() -> None:
    user = an_input("user", kind="variable", is_required=True)
    header = an_input("X-User", kind="header", value="User {user}; {other}", variables=(user,))

    assert texts(header, user="ada") == ("User ada; {other}",)


@pytest.mark.requirement("INS-10")
def test_a_template_whose_required_variable_is_missing_is_unset() -> None:
    values = InputValues("files", {})
    token = an_input("token", kind="variable", is_required=True)

    assert values.texts(an_input("X-Key", value="Key {token}", variables=(token,))) == ()
    assert [one.key for one in values.asked.values() if one.is_missing] == ["token"]


@pytest.mark.requirement("INS-11")
@rows(
    "one",
    [
        pytest.param(an_input("ACCESS", is_secret=True), id="by its publisher's word"),
        pytest.param(an_input("API_TOKEN"), id="by its name"),
        pytest.param(an_input("--api-key", kind="named"), id="by its flag"),
    ],
)
def test_a_secret_is_stored_and_referred_to(one: Input) -> None:
    key = one.name.lstrip("-")
    values = InputValues("files", {key: "hunter-2"})

    assert values.texts(one) == (f"${{secret:files/{key}}}",)
    assert values.to_store == {f"files/{key}": "hunter-2"}
    assert "hunter-2" not in repr(values.asked)
    assert values.plain == {}


@pytest.mark.requirement("INS-11")
def test_a_reference_to_a_secret_stays_one() -> None:
    values = InputValues("files", {"API_TOKEN": "${MY_TOKEN}"})

    assert values.texts(an_input("API_TOKEN")) == ("${MY_TOKEN}",)
    assert values.to_store == {}
    assert values.plain == {"API_TOKEN": ("${MY_TOKEN}",)}


@pytest.mark.requirement("INS-11")
def test_a_secret_that_is_stored_already_is_not_asked_for_again() -> None:
    values = InputValues("files", {}, stored=frozenset({"files/API_TOKEN"}))

    assert values.texts(an_input("API_TOKEN", is_required=True)) == ("${secret:files/API_TOKEN}",)
    assert not any(one.is_missing for one in values.asked.values())


def test_files_and_folders_that_the_owner_named_are_noted(tmp_path: Path) -> None:
    values = InputValues("files", {"A": str(tmp_path), "B": "/no/such/place", "C": "/"})
    for name in "ABC":
        values.texts(an_input(name))

    assert values.paths == [str(tmp_path)]


@pytest.mark.requirement("INS-4")
@given(st.text())
def test_no_text_of_an_entry_refers_to_anything(text: str) -> None:
    assert split(literal(text)) == ((text,) if text else ())


@pytest.mark.requirement("INS-4")
def test_a_default_and_a_fixed_value_of_an_entry_refer_to_nothing() -> None:
    assert texts(an_input(default="${file:/etc/passwd}")) == ("$${file:/etc/passwd}",)
    fixed = an_input(value="${secret:github/TOKEN}-{a}-${HOME}")
    assert texts(fixed) == ("$${secret:github/TOKEN}-{a}-$${HOME}",)


@pytest.mark.requirement("INS-4")
@given(st.lists(st.text("${}a:", max_size=6), max_size=4))
def test_no_two_texts_of_an_entry_become_a_reference_together(pieces: list[str]) -> None:
    whole = joined(map(literal, pieces))

    assert split(whole) == (("".join(pieces),) if "".join(pieces) else ())


@pytest.mark.requirement("INS-4")
def test_a_default_within_a_fixed_value_refers_to_nothing() -> None:
    user = an_input("user", kind="variable", default="{secret:github/TOKEN}")

    assert texts(an_input(value="${user}", variables=(user,))) == ("$${secret:github/TOKEN}",)


@pytest.mark.requirement("INS-4")
def test_a_dollar_sign_before_a_reference_is_refused() -> None:
    user = an_input("user", kind="variable")

    with pytest.raises(InstallRefusedError, match="a dollar sign"):
        texts(an_input(value="${user}", variables=(user,)), user="${USER}")


@pytest.mark.requirement("INS-11")
@rows("is_secret", [True, False])
@rows("value", ["hunter-2", "a${HOME}b", "${", "${file:/etc/passwd}", "$${x"])
def test_what_is_given_as_a_secret_is_stored_as_it_is_and_nothing_in_it_is_a_reference(
    value: str, *, is_secret: bool
) -> None:
    values = InputValues("files", {}, secrets={"OPENER": value})

    found = values.texts(an_input("OPENER", is_secret=is_secret))

    assert found == ("${secret:files/OPENER}",)
    assert values.to_store == {"files/OPENER": value}
    assert values.plain == {}
    assert values.asked["OPENER"].stored_as == "files/OPENER"


@pytest.mark.requirement("INS-40")
def test_earlier_values_stay_while_they_are_asked_for_and_new_ones_replace_them() -> None:
    values = InputValues("files", {"MODE": "new"}, earlier={"MODE": "old", "GONE": "x", "B": "b"})

    found = [values.texts(an_input(name)) for name in ("MODE", "B")]
    values.require_known()

    assert found == [("new",), ("b",)]
    assert values.plain == {"MODE": ("new",), "B": ("b",)}


@pytest.mark.requirement("INS-40")
def test_an_earlier_value_that_does_not_fit_any_more_is_named_with_the_next_step() -> None:
    values = InputValues("files", {}, earlier={"MODE": "old"})

    with pytest.raises(InvalidInputError, match="does not fit: MODE must be one of") as caught:
        values.texts(an_input("MODE", choices=("a", "b")))

    assert caught.value.hint == "give another value: `--with MODE=…`"


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


def env_input(name: str, **members: object) -> Input:
    return Input(name, "environment", **members)  # type: ignore[arg-type]


@pytest.mark.requirement("INS-2")
@rows("name", DECIDES)
def test_a_variable_that_decides_what_is_run_is_never_set(name: str) -> None:
    for one in (
        env_input(name, value="/x"),
        env_input(name, is_required=True),
    ):
        with pytest.raises(InstallRefusedError, match="decides what is run or loaded"):
            environment([one], InputValues("files", {}))

    found = environment([env_input(name, default="/x")], InputValues("files", {}))

    assert found.variables == {}
    assert name in found.warnings[0]


@pytest.mark.requirement("INS-2")
@rows("name", HARMLESS)
def test_a_variable_that_decides_nothing_is_set(name: str) -> None:
    assert environment([env_input(name, value="x")], InputValues("files", {})).variables == {
        name: "x"
    }


@pytest.mark.requirement("INS-2")
@rows("name", ["HTTPS_PROXY", "all_proxy", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_a_proxy_or_a_certificate_is_set_by_the_owner_alone(name: str) -> None:
    with pytest.raises(InstallRefusedError, match="decides with whom"):
        environment([env_input(name, value="x")], InputValues("files", {}))
    assert environment([env_input(name, default="x")], InputValues("files", {})).variables == {}

    given = environment([env_input(name)], InputValues("files", {name: "http://proxy:1"}))

    assert given.variables == {name: "http://proxy:1"}


@pytest.mark.requirement("INS-2")
@rows("name", ["", "A=B", "A B", "A\0", "A\n", "1A", "-e", "${A}"])
def test_what_is_no_name_of_a_variable_is_refused(name: str) -> None:
    with pytest.raises(InstallRefusedError, match="is no name"):
        environment([env_input(name, value="x")], InputValues("files", {}))


NAMES = {"npm": "@acme/files", "pypi": "acme-files", "oci": "acme/files", "nuget": "Acme.Files"}


def an_offer(kind: Any, *arguments: Input) -> PackageOffer:
    return PackageOffer(kind, NAMES[kind], "1.2.0", runtime_arguments=arguments)


def named(name: str, value: str = "", **members: Any) -> Input:
    return Input(name, "named", value=value, **members)


def word(value: str, **members: Any) -> Input:
    return Input("", "positional", value=value, **members)


def options(kind: str, *arguments: Input, **given: str) -> Any:
    return runtime_options(an_offer(kind, *arguments), InputValues("files", given))


@pytest.mark.requirement("INS-2")
@rows(
    ("kind", "arguments", "expected"),
    [
        pytest.param("npm", [named("-y")], (), id="npx -y"),
        pytest.param("npm", [word("@acme/files@1.2.0")], (), id="npx package"),
        pytest.param("npm", [named("--package", "@acme/files")], (), id="npx --package"),
        pytest.param("pypi", [named("--from", "acme-files==1.2.0")], (), id="uvx --from"),
        pytest.param("pypi", [word("--from"), word("acme-files")], (), id="uvx --from, in words"),
        pytest.param("pypi", [named("--python", "3.12")], ("--python", "3.12"), id="uvx --python"),
        pytest.param("oci", [named("-i"), named("--rm"), word("run")], (), id="docker usual"),
        pytest.param("oci", [named("--network=none")], ("--network", "none"), id="docker network"),
        pytest.param("oci", [named("--memory", "512m")], ("--memory", "512m"), id="docker memory"),
        pytest.param("nuget", [named("--yes")], (), id="dnx --yes"),
    ],
)
def test_an_option_that_chooses_nothing_is_taken(
    kind: str, arguments: list[Input], expected: tuple[str, ...]
) -> None:
    assert options(kind, *arguments).options == expected


@pytest.mark.requirement("INS-2")
@rows(
    ("kind", "arguments"),
    [
        pytest.param("npm", [named("-c", "touch M")], id="npx -c"),
        pytest.param("npm", [named("--call=touch M")], id="npx --call"),
        pytest.param("npm", [named("--prefix", "/tmp/evil")], id="npx --prefix"),
        pytest.param("npm", [named("--registry", "https://evil.example")], id="npx --registry"),
        pytest.param("npm", [named("--package", "evil")], id="npx another package"),
        pytest.param("npm", [named("--node-options", "--require /x.js")], id="npx --node-options"),
        pytest.param("npm", [named("--userconfig", "/tmp/npmrc")], id="npx --userconfig"),
        pytest.param("npm", [word("./evil")], id="npx path"),
        pytest.param("npm", [word("--call"), word("touch M")], id="npx --call, in words"),
        pytest.param("pypi", [named("--with", "evil")], id="uvx --with"),
        pytest.param("pypi", [named("--from", "git+https://evil.example/x")], id="uvx --from git"),
        pytest.param("pypi", [named("--index-url", "https://evil.example")], id="uvx --index-url"),
        pytest.param("pypi", [named("--python", "/tmp/python")], id="uvx --python path"),
        pytest.param("pypi", [named("--env-file", "/home/ada/.env")], id="uvx --env-file"),
        pytest.param("oci", [named("--privileged")], id="docker --privileged"),
        pytest.param("oci", [named("-v", "/:/host")], id="docker -v"),
        pytest.param("oci", [named("--volume=/:/host")], id="docker --volume"),
        pytest.param("oci", [named("--mount", "type=bind,src=/,dst=/host")], id="docker --mount"),
        pytest.param("oci", [named("--entrypoint", "sh")], id="docker --entrypoint"),
        pytest.param("oci", [named("--network", "host")], id="docker --network host"),
        pytest.param("oci", [named("--pid=host")], id="docker --pid"),
        pytest.param("oci", [named("--env-file", "/etc/passwd")], id="docker --env-file"),
        pytest.param("oci", [word("evil.example/img")], id="docker another image"),
        pytest.param("nuget", [named("--source", "https://evil.example")], id="dnx --source"),
        pytest.param("npm", [named("-y", "-c")], id="a value for a flag without one"),
    ],
)
def test_any_other_option_is_refused(kind: str, arguments: list[Input]) -> None:
    with pytest.raises(InstallRefusedError, match="which is not allowed") as why:
        options(kind, *arguments)

    assert why.value.code == "INSTALL_REFUSED"


@pytest.mark.requirement("INS-2")
def test_a_mount_is_of_the_folder_that_the_owner_names() -> None:
    folder = Input("folder", "variable", is_required=True, default="/")
    mount = named("--mount", "type=bind,src={folder},dst=/data", variables=(folder,))

    found = options("oci", mount, folder="/home/ada/notes")

    assert found.options == ("--mount", "type=bind,src=/home/ada/notes,dst=/data")
    assert "changes /home/ada/notes" in found.warnings[0]


@pytest.mark.requirement("INS-2")
def test_no_default_of_an_entry_is_mounted() -> None:
    folder = Input("folder", "variable", default="/")
    values = InputValues("files", {})
    mount = named("-v", "{folder}:/data", variables=(folder,), is_required=True)

    found = runtime_options(an_offer("oci", mount), values)

    assert found.options == ()
    assert [one.key for one in values.asked.values() if one.is_missing] == ["folder"]


@pytest.mark.requirement("INS-2")
def test_a_folder_cannot_change_the_rest_of_its_mount() -> None:
    folder = Input("folder", "variable", is_required=True)
    mount = named("-v", "{folder}:/data", variables=(folder,))

    with pytest.raises(InstallRefusedError):
        options("oci", mount, folder="/a,dst=/etc")


@pytest.mark.requirement("INS-2")
def test_a_variable_that_an_option_sets_is_one_of_the_environment() -> None:
    found = options("oci", named("-e", "MODE=fast"), named("--env", "KEY"))

    assert [(one.name, one.value, one.kind) for one in found.environment] == [
        ("MODE", "fast", "environment"),
        ("KEY", "", "environment"),
    ]


@pytest.mark.requirement("INS-2")
@rows("hint", ["bash", "sh", "/usr/bin/env", "powershell", "uvx;sh", "sudo"])
def test_a_runtime_hint_that_is_no_runtime_is_refused(hint: str) -> None:
    assert refused_hint(PackageOffer("npm", "a", "1.0.0", runtime_hint=hint)) == hint


def test_usual_runtime_hints_decide_nothing() -> None:
    assert refused_hint(PackageOffer("npm", "a", "1.0.0", runtime_hint="bunx")) is None
    assert refused_hint(PackageOffer("pypi", "a", "1.0.0", runtime_hint="python")) is None
    assert refused_hint(PackageOffer("pypi", "a", "1.0.0")) is None


@pytest.mark.requirement("INS-10")
def test_arguments_of_the_server_keep_their_order_and_kind() -> None:
    values = InputValues("files", {"folder": ["/a", "/b"], "verbose": "true", "quiet": "no"})
    inputs = (
        Input("--stdio", "named"),
        Input("--mode", "named", value="fast"),
        Input("--folder", "named", is_repeated=True),
        Input("--verbose", "named", format="boolean"),
        Input("--quiet", "named", format="boolean"),
        Input("--level", "named", description="How much"),
        Input("", "positional", value="serve"),
    )

    assert server_arguments(inputs, values) == (
        *("--stdio", "--mode", "fast", "--folder", "/a", "--folder", "/b", "--verbose", "serve"),
    )


def url_part(name: str, **members: Any) -> Input:
    return Input(name, "variable", is_required=True, **members)


def filled(url: str, **given: str) -> str | None:
    names = [name for name in ("tenant", "path", "key", "base") if f"{{{name}}}" in url]
    offer = RemoteOffer("streamable-http", url, variables=tuple(map(url_part, names)))
    return address(offer, InputValues("files", given))


@pytest.mark.requirement("INS-5")
@rows(
    ("url", "given", "expected"),
    [
        ("https://a.example/mcp", {}, "https://a.example/mcp"),
        ("https://{tenant}.a.example/mcp", {"tenant": "ada"}, "https://ada.a.example/mcp"),
        (
            "https://a.example/{path}/mcp",
            {"path": "x/../y?z"},
            "https://a.example/x%2F..%2Fy%3Fz/mcp",
        ),
        (
            "https://a.example/?k={tenant}",
            {"tenant": "a&b=c#d"},
            "https://a.example/?k=a%26b%3Dc%23d",
        ),
        ("{base}/mcp", {"base": "https://own.example"}, "https://own.example/mcp"),
        ("http://localhost:3000/mcp", {}, "http://localhost:3000/mcp"),
        ("http://127.0.0.1:3000/mcp", {}, "http://127.0.0.1:3000/mcp"),
    ],
)
def test_values_fill_their_places_in_an_address(
    url: str, given: dict[str, str], expected: str
) -> None:
    assert filled(url, **given) == expected


@pytest.mark.requirement("INS-5")
@rows(
    "url",
    [
        *("http://a.example/mcp", "ftp://a.example", "javascript:alert(1)", "file:///etc/passwd"),
        *("https://10.0.0.1/mcp", "https://169.254.169.254/latest", "https://[fd00::1]/mcp"),
        *("https://router.local/mcp", "https://intranet/mcp", "https://user:pw@a.example/mcp"),
        *(
            "https://0x7f000001.example\\@evil.example/",
            "https://a.example/ x",
            "https://100.64.0.1/",
        ),
    ],
)
def test_an_address_that_may_not_be_reached_is_refused(url: str) -> None:
    with pytest.raises(InstallRefusedError):
        filled(url)


@pytest.mark.requirement("INS-5")
@rows("value", ["evil.example/", "a@evil.example", "a#", "a?b", "", "a:b:c", "-a", "a\\b"])
def test_a_value_cannot_become_another_host(value: str) -> None:
    with pytest.raises(InvalidInputError):
        filled("https://{tenant}.a.example/mcp", tenant=value)


@pytest.mark.requirement("INS-5")
@given(st.text(min_size=1).filter(lambda text: "$" not in text and text.isprintable()))
def test_no_value_changes_the_host_or_what_is_around_its_place(value: str) -> None:
    try:
        url = filled("https://a.example/v1/{path}/mcp?x=1", path=value)
    except InvalidInputError:
        return

    parts = urlsplit(url or "")
    assert (parts.scheme, parts.netloc, parts.query) == ("https", "a.example", "x=1")
    assert parts.path.startswith("/v1/")
    assert parts.path.endswith("/mcp")
    assert parts.path.count("/") == 3


@pytest.mark.requirement("INS-10")
def test_an_address_whose_value_is_missing_is_none_yet() -> None:
    assert filled("https://{tenant}.a.example/mcp") is None


@pytest.mark.requirement("INS-5")
@rows(
    "name",
    ["Host", "content-length", "Transfer-Encoding", "Cookie", "MCP-Session-Id", "a b", "a\r\nb"],
)
def test_a_header_of_the_connection_is_refused(name: str) -> None:
    with pytest.raises(InstallRefusedError, match="sets the header"):
        headers([Input(name, "header", value="x")], InputValues("files", {}))


@pytest.mark.requirement("INS-11")
def test_a_secret_in_a_header_is_stored() -> None:
    values = InputValues("files", {"token": "hunter-2"})
    one = Input("Authorization", "header", value="Bearer {token}", variables=(url_part("token"),))

    assert headers([one], values) == {"Authorization": "Bearer ${secret:files/token}"}
    assert values.to_store == {"files/token": "hunter-2"}


@pytest.mark.requirement("INS-5", "INS-11")
def test_a_secret_in_an_address_is_stored_as_it_stands_there() -> None:
    values = InputValues("files", {"key": "a&b/../c"})
    offer = RemoteOffer("sse", "https://a.example/mcp?k={key}", variables=(url_part("key"),))

    assert address(offer, values) == "https://a.example/mcp?k=${secret:files/key}"
    assert values.to_store == {"files/key": "a%26b%2F..%2Fc"}
