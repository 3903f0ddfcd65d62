#!/bin/sh
# An environment in another language: it counts, and scores 1 where the count is what the row's data asks for.
count=0
while read -r line; do
    case $line in
    *'"op": "describe"'*)
        schema='{"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]}'
        printf '{"name": "counting", "tools": [{"name": "add", "description": "Add.", "parameters": %s}]}\n' "$schema" ;;
    *'"op": "reset"'*)
        wanted=${line##*'"wanted": '} wanted=${wanted%%[!0-9]*}
        printf '{"prompt": "Count to %s."}\n' "$wanted" ;;
    *'"op": "step"'*)
        by=${line##*'"by": '} by=${by%%[!0-9]*}
        case $by in
        '') printf '{"text": "by is a number", "error": true}\n' ;;
        13) printf '{"failure": "the counter broke"}\n' ;;
        14) exit 3 ;;
        15) printf 'no JSON\n' ;;
        16) printf '{"reward": "much"}\n' ;;
        17) printf '{"text": null}\n' ;;
        18) printf '{"text": {"count": [1, null]}}\n' ;;
        19) printf '{"text": "over", "done": "true"}\n' ;;
        20) exec 1>&-; sleep 60 ;;
        *) count=$((count + by)); printf '{"text": "%s", "done": %s}\n' "$count" "$([ "$count" -gt 99 ] && echo true || echo false)" ;;
        esac ;;
    *'"op": "verify"'*) printf '{"reward": %s}\n' "$([ "$count" -eq "$wanted" ] && echo 1 || echo 0)" ;;
    esac
done
