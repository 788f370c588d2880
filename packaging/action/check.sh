#!/usr/bin/env bash
# Writes a report in Markdown of everything that can be checked; exits with 1 if a check failed.
#
#   CONFIG      the discovery.yaml
#   QUERIES     the queries, or empty for those beside it
#   FAIL_UNDER  limits for them, such as "recall@5=0.9 hit@1=0.8"
#   FAIL_OVER   upper limits, such as "tokens=400 false_match_rate=0.1"
set -uo pipefail

folder=$(dirname "$CONFIG")
queries=${QUERIES:-$folder/discovery-queries.yaml}
report="$RUNNER_TEMP/discovery-report.md"
failed=0

check() { # TITLE COMMAND…: one section of the report
  local title=$1 output code
  shift
  output=$(discovery --config "$CONFIG" --no-progress "$@" 2>&1)
  code=$?
  if ((code)); then failed=1; fi
  printf '### %s %s\n\n' "$( ((code)) && echo ❌ || echo ✅)" "$title" >>"$report"
  if [[ " $* " == *" --markdown "* ]]; then
    printf '%s\n\n' "$output" >>"$report"
  else
    printf '~~~~text\n%s\n~~~~\n\n' "$output" >>"$report"
  fi
}

printf '## MCP tools\n\n' >"$report"
check "Servers are listed" refresh
check "Rules and tools" tune lint --sarif "$RUNNER_TEMP/discovery.sarif"
if [[ -f $folder/discovery.lock ]]; then
  check "Tools are as discovery.lock pins them" config lock --check
fi
if [[ -f $queries ]]; then
  limits=()
  for limit in $FAIL_UNDER; do limits+=(--fail-under "$limit"); done
  for limit in ${FAIL_OVER:-}; do limits+=(--fail-over "$limit"); done
  check "Search finds what it should" tune eval "$queries" --markdown ${limits[@]+"${limits[@]}"}
fi

cat "$report"
cat "$report" >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
if [[ -f $RUNNER_TEMP/discovery.sarif ]]; then
  echo "sarif=$RUNNER_TEMP/discovery.sarif" >>"${GITHUB_OUTPUT:-/dev/null}"
fi
echo "report=$report" >>"${GITHUB_OUTPUT:-/dev/null}"
exit "$failed"
