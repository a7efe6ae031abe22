#!/bin/sh
# Ends a job by the outcome of its comparison: 1 slower or failed, 4 contradicted, if the job is to fail for these.
#
# IOASSAY_CI_FAIL_ON   some of `slower`, `any`, `contradicted` and `failed`, or `never`; `any`: `slower`, and a loss of speed
#                      against a baseline that was not measured in turns
# IOASSAY_CI_OUTPUT    the folder of results, by default ioassay-ci
#
# A machine that was not fit, and data that do not decide, never fail a job: they show nothing.
set -eu

output=${IOASSAY_CI_OUTPUT:-ioassay-ci}
read -r outcome <"$output/outcome"
fails=
for word in $(printf %s "${IOASSAY_CI_FAIL_ON:-slower contradicted failed}" | tr -c 'a-z-' ' '); do
    case $word in
    failed) [ ! -e "$output/failed" ] || fails=yes ;;
    slower | contradicted) [ "$word" != "$outcome" ] || fails=yes ;;
    any) [ ! -e "$output/regression" ] || fails=yes ;;
    never) ;;
    *)
        echo "ioassay: cannot fail on '$word'; expected slower, any, contradicted, failed or never (input 'fail-on')" >&2
        exit 2
        ;;
    esac
done
echo "ioassay: $outcome"
[ "$fails" ] || exit 0
[ "$outcome" != contradicted ] || exit 4
exit 1
