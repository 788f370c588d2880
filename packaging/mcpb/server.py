"""The gateway on stdio for Claude Desktop, which names the owner's file in DISCOVERY_CONFIG."""

import sys

from discovery_cli.main import main

sys.argv[1:] = ["serve"]
main()
