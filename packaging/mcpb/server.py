"""The gateway on stdio for Claude Desktop, which names a file of the owner in DISCOVERY_CONFIG."""

import os
import sys

from discovery_cli.main import main

# Claude Desktop leaves the placeholder of a field that was not filled in.
if os.environ.get("DISCOVERY_CONFIG", "").startswith("${"):
    del os.environ["DISCOVERY_CONFIG"]
sys.argv[1:] = ["serve"]
main()
