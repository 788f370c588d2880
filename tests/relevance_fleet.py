"""Nineteen tools of four servers, for contracts that want an ordinary fleet."""

from __future__ import annotations

from discovery_engine.tools.model import Tool
from tests.factories import make_tool

READS = {"readOnlyHint": True}
DESTROYS = {"readOnlyHint": False, "destructiveHint": True}

FLEET: dict[str, tuple[Tool, ...]] = {
    "github": (
        make_tool("github_create_issue", "github"),
        make_tool("github_create_pull_request", "github"),
        make_tool("github_delete_repo", "github", annotations=DESTROYS),
        make_tool("github_get_issue", "github", annotations=READS),
        make_tool("github_list_issues", "github", annotations=READS),
        make_tool("github_search_code", "github", annotations=READS),
    ),
    "jira": (
        make_tool("jira_create_ticket", "jira"),
        make_tool("jira_delete_ticket", "jira", annotations=DESTROYS),
        make_tool("jira_list_tickets", "jira", annotations=READS),
        make_tool("jira_update_ticket", "jira"),
    ),
    "filesystem": (
        make_tool("delete_file", "filesystem", annotations=DESTROYS),
        make_tool("list_directory", "filesystem", annotations=READS),
        make_tool("read_file", "filesystem", annotations=READS),
        make_tool("search_files", "filesystem", annotations=READS),
        make_tool("write_file", "filesystem", annotations=DESTROYS),
    ),
    "docker": (
        make_tool("docker_list_containers", "docker", annotations=READS),
        make_tool("docker_remove_container", "docker", annotations=DESTROYS),
        make_tool("docker_run_container", "docker"),
        make_tool("docker_stop_container", "docker"),
    ),
}

TOOLS = tuple(tool for tools in FLEET.values() for tool in tools)
