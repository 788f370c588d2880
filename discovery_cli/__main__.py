"""`python -m discovery_cli` is `discovery`."""

from discovery_cli.main import main

main()
