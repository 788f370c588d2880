"""The fixtures of the contract tests."""

from tests.api_server import api  # noqa: F401 - a fixture
