#!/bin/sh
# Posts the summary as a comment of a pull request, or updates the one that an earlier run of the job posted.
#
# IOASSAY_CI_PULL_REQUEST   the number of the pull request
# IOASSAY_CI_JOB            what tells the comments of several jobs apart
# IOASSAY_CI_OUTPUT         the folder of results, by default ioassay-ci
# GH_TOKEN, GITHUB_REPOSITORY   as GitHub's command line reads them
#
# The token of a pull request from a fork may not comment. That is a warning, since the job's summary says the same.
set -eu

output=${IOASSAY_CI_OUTPUT:-ioassay-ci}
case ${IOASSAY_CI_PULL_REQUEST:-} in
'' | *[!0-9]*)
    echo "ioassay: the number of the pull request is '${IOASSAY_CI_PULL_REQUEST:-}'; expected a number" >&2
    exit 2
    ;;
esac
# A comment of HTML must not end early, whatever the job is called.
job=$(printf %s "${IOASSAY_CI_JOB:-}" | tr -c 'A-Za-z0-9._' '-')
marker="<!-- ioassay $job -->"
{
    printf '%s\n' "$marker"
    cat "$output/summary.markdown"
} >"$output/comment.markdown"

comments=repos/$GITHUB_REPOSITORY/issues/$IOASSAY_CI_PULL_REQUEST/comments
select=".[] | select(.body | startswith(\"$marker\")) | .id"
post() {
    earlier=$(gh api --paginate "$comments" --jq "$select") || return
    earlier=$(printf '%s\n' "$earlier" | head -n 1)
    if [ "$earlier" ]; then
        gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$earlier" -F "body=@$output/comment.markdown"
    else
        gh api --silent --method POST "$comments" -F "body=@$output/comment.markdown"
    fi
}
post || echo '::warning::ioassay could not comment on the pull request; the summary of the job has the same text'
