"""The configurations in examples/ do what their comments say, on an ordinary fleet."""

from __future__ import annotations

from pathlib import Path

import pytest

from discovery_engine import Settings, load_settings
from discovery_engine.rules import ServerRules, ToolRules, Verdict, lint_rules
from tests.relevance_fleet import FLEET, TOOLS
from tests.rows import rows

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = [
    "glob",
    "production",
    "regex",
    "server-specific",
    "tags",
    "whitelist",
    "zero-config",
]

DISABLED = {
    "zero-config": "",
    "glob": "github_delete_repo jira_create_ticket jira_delete_ticket jira_update_ticket "
    "delete_file write_file docker_remove_container",
    "regex": "github_delete_repo jira_delete_ticket delete_file docker_remove_container",
    "server-specific": "delete_file write_file docker_list_containers docker_remove_container "
    "docker_run_container docker_stop_container",
    "whitelist": "github_create_pull_request github_delete_repo github_search_code "
    "jira_create_ticket jira_delete_ticket jira_update_ticket delete_file write_file "
    "docker_remove_container docker_run_container docker_stop_container",
    "tags": "docker_run_container",
    "production": "github_delete_repo jira_delete_ticket jira_update_ticket delete_file write_file "
    "docker_remove_container docker_run_container docker_stop_container",
}
TAGGED = {
    "zero-config": {},
    "glob": {"issues": "github_create_issue github_get_issue github_list_issues"},
    "regex": {
        "writes": "write_file",
        "look-around": "github_list_issues github_search_code",
        "tracker": "github_create_issue github_get_issue github_list_issues jira_create_ticket "
        "jira_delete_ticket jira_list_tickets jira_update_ticket",
    },
    "server-specific": {
        "local": "delete_file list_directory read_file search_files write_file",
        "trusted": "delete_file list_directory read_file search_files write_file",
        "tracker": "github_create_issue github_get_issue github_list_issues jira_create_ticket "
        "jira_delete_ticket jira_list_tickets jira_update_ticket",
    },
    "whitelist": {
        "read-only": "github_get_issue github_list_issues github_search_code jira_list_tickets "
        "list_directory read_file search_files docker_list_containers",
    },
    "tags": {
        "files": "delete_file list_directory read_file search_files write_file",
        "vcs": "github_create_issue github_create_pull_request github_delete_repo "
        "github_get_issue github_list_issues github_search_code",
        "safe": "github_get_issue github_list_issues github_search_code jira_list_tickets "
        "list_directory read_file search_files docker_list_containers",
        "dangerous": "github_delete_repo jira_delete_ticket delete_file write_file "
        "docker_remove_container docker_run_container",
        "slow": "docker_run_container",
    },
    "production": {
        "files": "delete_file list_directory read_file search_files write_file",
        "dangerous": "github_delete_repo jira_delete_ticket delete_file write_file "
        "docker_remove_container",
        "read-only": "github_get_issue github_list_issues github_search_code jira_list_tickets "
        "list_directory read_file search_files docker_list_containers",
        "writes": "github_create_issue github_create_pull_request jira_create_ticket",
    },
}


def loaded(name: str) -> Settings:
    path = EXAMPLES / name / "discovery.yaml"
    return load_settings(str(path), environ={}, cwd=str(path.parent), home=str(path.parent))


def verdicts(settings: Settings) -> dict[str, Verdict]:
    """The verdict on every tool of the fleet, by its name."""
    own_tags = {server.name: server.tags for server in settings.servers}
    servers, judge = ServerRules(settings.server_rules), ToolRules(settings.tool_rules)
    found = {}
    for tools in FLEET.values():
        name = tools[0].server
        server = servers.verdict(name, own_tags.get(name, ()), True)
        found |= zip((tool.name for tool in tools), judge.verdicts(tools, server), strict=True)
    return found


@rows("name", NAMES)
def test_example_is_valid_and_none_of_its_rules_is_idle(name: str) -> None:
    settings = loaded(name)

    assert [server.problem for server in settings.servers if server.problem] == []
    assert settings.warnings == ()
    assert lint_rules(settings.tool_rules, TOOLS) == ()


@pytest.mark.requirement("RUL-1", "RUL-3")
@rows("name", NAMES)
def test_example_disables_what_it_says(name: str) -> None:
    disabled = {tool for tool, verdict in verdicts(loaded(name)).items() if not verdict.enabled}

    assert disabled == set(DISABLED[name].split())


@pytest.mark.requirement("RUL-1")
@rows("name", NAMES)
def test_example_tags_what_it_says(name: str) -> None:
    tagged: dict[str, set[str]] = {}
    for tool, verdict in verdicts(loaded(name)).items():
        for tag in verdict.tags:
            tagged.setdefault(tag, set()).add(tool)

    assert tagged == {tag: set(tools.split()) for tag, tools in TAGGED[name].items()}
