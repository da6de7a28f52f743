#!/bin/sh
# One night: scan, write the page, open an issue (or add to the open one) when a pinned pair broke.
# nightly.sh [LIST]; settings: STORE, SITE, MAX_TIME (seconds). The issue needs gh, logged in.
set -eu

list=${1:-targets.toml}
store=${STORE:-draftcheck-scan.db}
site=${SITE:-site}
title="draftcheck: a pinned pair no longer works"

code=0
draftcheck scan "$list" --store "$store" --max-time "${MAX_TIME:-18000}" \
  --format markdown --output summary.md || code=$?
case $code in
  0 | 1 | 3) ;;  # fine; a pinned pair broke; something could not be read or decided
  *) exit "$code" ;;
esac
draftcheck report --store "$store" --output "$site"
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  cat summary.md >>"$GITHUB_STEP_SUMMARY"
fi
if [ "$code" -eq 1 ]; then
  open=$(gh issue list --state open --search "in:title \"$title\"" --json number --jq '.[0].number // empty')
  if [ -n "$open" ]; then
    gh issue comment "$open" --body-file summary.md
  else
    gh issue create --title "$title" --body-file summary.md
  fi
fi
