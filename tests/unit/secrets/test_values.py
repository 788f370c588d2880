"""Which parts of a value are secret, and which stay readable."""

from __future__ import annotations

import base64
import json

import pytest

from discovery_engine.secrets.values import secrets_in
from tests.rows import rows

pytestmark = pytest.mark.requirement("HEA-15")

PEM = (
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\nAA==\n-----END PRIVATE KEY-----\n"
)
BASIC = base64.b64encode(b"alice:wonder-99").decode()
TOKEN = "ntn_4f9Qz8sT1aaBB"


@rows(
    ("name", "value", "secrets"),
    [
        pytest.param("API_KEY", TOKEN, {TOKEN}, id="a token"),
        pytest.param("PASSWORD", "geheim", {"geheim"}, id="a word, by its name"),
        pytest.param("PIN", "1234", {"1234"}, id="digits, by their name"),
        pytest.param("ANY", "hunter22", {"hunter22"}, id="whatever stands alone"),
        pytest.param(
            "OPENAPI_MCP_HEADERS",
            json.dumps({"Authorization": f"Bearer {TOKEN}", "Notion-Version": "2022-06-28"}),
            {TOKEN},
            id="JSON, and a scheme in it",
        ),
        pytest.param("ANY", '{"a": [{"b": {"token": "x1y2"}}]}', {"x1y2"}, id="deep in JSON"),
        pytest.param("ANY", '{"pin": 98765432}', {"98765432"}, id="a number in JSON"),
        pytest.param("ANY", f"{{'Authorization': 'Bearer {TOKEN}'}}", {TOKEN}, id="nearly JSON"),
        pytest.param("ANY", f'{{"token": "{TOKEN}",}}', {TOKEN}, id="JSON with a comma too many"),
        pytest.param("ANY", json.dumps(json.dumps({"key": TOKEN})), {TOKEN}, id="JSON in JSON"),
        pytest.param(
            "DATABASE_URL",
            "postgres://bob:pw12@db.example.com:5432/shop?sslmode=require",
            {"pw12", "bob:pw12"},
            id="a login in an address",
        ),
        pytest.param(
            "ANY", "mysql://bob:p%40ss%2Fw@h/db", {"p@ss/w", "p%40ss%2Fw"}, id="percent-encoded"
        ),
        pytest.param("ANY", "postgres://bob:p@ss/w0rd@h/db", {"p@ss/w0rd"}, id="not encoded"),
        pytest.param("ANY", "redis://:s3cret9@redis:6379/0", {"s3cret9"}, id="without a user"),
        pytest.param("ANY", f"https://{TOKEN}@github.com/a/b", {TOKEN}, id="a token as user"),
        pytest.param("ANY", "https://h/?sig=ab12&page=2#t=cd34", {"ab12", "cd34"}, id="a query"),
        pytest.param("ANY", "jdbc:sqlserver://h:1;user=sa;password=xyz-7", {"xyz-7"}, id="jdbc"),
        pytest.param(
            "HOOK",
            "https://hooks.slack.com/services/T0/B0/aB3dE5fG7hI9",
            {"aB3dE5fG7hI9"},
            id="a path",
        ),
        pytest.param(
            "ANY", "//npm.example.com/:_authToken=npm_abc123def", {"npm_abc123def"}, id="npmrc"
        ),
        pytest.param(
            "MYSQL", "root:hunter22@tcp(127.0.0.1:3306)/db", {"hunter22"}, id="a driver's"
        ),
        pytest.param(
            "ORACLE", "scott/tiger99@dbhost:1521/orcl", {"tiger99"}, id="another driver's"
        ),
        pytest.param(
            "DSN", "Server=tcp:h,1433;User ID=sa;Password=Tr0ub;Encrypt=True", {"Tr0ub"}, id="ODBC"
        ),
        pytest.param(
            "DSN", "Driver={ODBC Driver 18};PWD={a;b=c};UID=sa", {"a;b=c"}, id="in braces"
        ),
        pytest.param("DSN", "host=h password='ge heim' dbname=x", {"ge heim"}, id="libpq"),
        pytest.param(
            "STORAGE",
            "AccountName=acme;AccountKey=Zm9vYmFyYmF6cXV4MTIz/w==;EndpointSuffix=core.windows.net",
            {"Zm9vYmFyYmF6cXV4MTIz/w=="},
            id="storage",
        ),
        pytest.param("OTEL", "api-key=ab-12,other=def", {"ab-12"}, id="pairs at commas"),
        pytest.param("ANY", "X-Api-Key: ab-12", {"ab-12"}, id="a header"),
        pytest.param("ANY", "X-Api-Key:ab-12,Accept:text/html", {"ab-12"}, id="headers"),
        pytest.param("Cookie", "session=abcd1234; theme=dark", {"abcd1234"}, id="cookies"),
        pytest.param("Authorization", f"Basic {BASIC}", {"wonder-99", BASIC}, id="Basic"),
        pytest.param("X", BASIC, {"wonder-99", "alice:wonder-99"}, id="base64 alone"),
        pytest.param("X", f"data:a/b;base64,{BASIC}", {"wonder-99"}, id="base64 in an address"),
        pytest.param("Authorization", f"Strange {TOKEN}", {TOKEN}, id="an unknown scheme"),
        pytest.param("ARGS", "--password geheim --port 5432", {"geheim"}, id="flags"),
        pytest.param("ARGS", "--api-key=geheim --verbose", {"geheim"}, id="flags with ="),
        pytest.param(
            "KEYS", "key-aaaa-11,key-bbbb-22", {"key-aaaa-11", "key-bbbb-22"}, id="a list"
        ),
        pytest.param("ANY", "bob:correct-horse-battery", {"correct-horse-battery"}, id="a pair"),
        pytest.param(
            "KEY", PEM, {"MIIEvQIBADANBg", "kqhkiG9w0BAQEF", "AA=="}, id="every line of a key"
        ),
        pytest.param("KEY", PEM.replace("\n", "\\n"), {"MIIEvQIBADANBg", "AA=="}, id="in one line"),
        pytest.param("KEY", json.dumps({"k": PEM}), {"kqhkiG9w0BAQEF"}, id="a key in JSON"),
        pytest.param("ANY", "A=b\nPASSWORD=geheim\nC=d", {"geheim"}, id="a file of variables"),
    ],
)
def test_a_secret_is_found_wherever_it_stands(name: str, value: str, secrets: set[str]) -> None:
    assert secrets <= {secret.text for secret in secrets_in(value, name)}


@pytest.mark.requirement("HEA-9")
@rows(
    ("name", "value"),
    [
        ("ANY", "true"),
        ("ANY", "production"),
        ("ANY", "5432"),
        ("ANY", "30000"),
        ("ANY", "1.2.3"),
        ("ANY", "2022-06-28"),
        ("ANY", "/usr/bin"),
        ("ANY", "/usr/bin:/usr/local/bin"),
        ("ANY", "~/projects/shop"),
        ("ANY", r"C:\Users\me\data"),
        ("ANY", "db.example.com"),
        ("ANY", "db.example.com:5432"),
        ("ANY", "127.0.0.1:8080"),
        ("ANY", "localhost"),
        ("ANY", "https://api.example.com/v1/items"),
        ("ANY", "en_US.UTF-8"),
        ("ANY", "Europe/Berlin"),
        ("ANY", "us-east-1"),
        ("ANY", "/home/me/a,/home/me/b"),
        ("ANY", "github,gitlab"),
        ("Accept", "application/json, text/event-stream"),
        ("User-Agent", "discovery/1.0 (linux)"),
        ("EMBEDDING_MODEL", "text-embedding-3-small"),
        ("PGDATABASE_NAME", "warehouse"),
        ("TOKEN_FILE", "/run/secrets/token"),
        ("AUTH_URL", "https://login.example.com/oauth2/authorize"),
        ("MAX_TOKENS", "4096"),
        ("GITHUB_REPOSITORY", "acme/hello-world"),
        ("PROJECT_ID", "warehouse-of-acme"),
        ("ANY", "mode=readonly,team=platform"),
        ("DSN", "host=db.example.com port=5432 dbname=warehouse sslmode=require"),
    ],
)
def test_a_harmless_value_holds_no_secret(name: str, value: str) -> None:
    assert [secret.text for secret in secrets_in(value, name)] == []


@pytest.mark.requirement("HEA-9")
@rows(
    ("value", "readable"),
    [
        (
            "postgres://bob:pw12@db.example.com:5432/warehouse?sslmode=require",
            "db.example.com:5432",
        ),
        ("postgres://bob:pw12@db.example.com:5432/warehouse?sslmode=require", "warehouse"),
        ("Server=db.example.com;Database=warehouse;Password=geheim", "Server=db.example.com"),
        ('{"Authorization": "Bearer ntn_4f9Qz8sT", "Notion-Version": "2022-06-28"}', "2022-06-28"),
        ('{"Authorization": "Bearer ntn_4f9Qz8sT", "dir": "/usr/share"}', "/usr/share"),
        ("--password geheim --port 5432 --directory /usr/share", "--port 5432"),
    ],
)
def test_what_stands_beside_a_secret_stays_readable(value: str, readable: str) -> None:
    assert not [
        s.text for s in secrets_in(value, "ANY") if s.text in readable or readable in s.text
    ]


@pytest.mark.thorough
@rows(
    "value",
    ["{", "a=", "a:", "://", "@", "a;", "a=b;", "x ", "'", "a:b@", "//a:b@", "\\n", "a\n", "[1,"],
)
def test_an_endless_value_is_read_to_an_end(value: str) -> None:
    assert all(value for value in secrets_in(value * 5000, "TOKEN"))
