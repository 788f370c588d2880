"""A package, so that every test can say `from tests.factories import make_tool`."""
