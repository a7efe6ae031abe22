#compdef ioassay
_ioassay_completion() {
    local -a lines whole open list
    local -A about
    local line value suffix width=0
    lines=("${(@f)$("${words[1]}" --candidates "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -z "${lines[1]}" ]]; then _files; return; fi
    for line in "${lines[@]}"; do
        value=${line%%$'	'*}
        about[$value]=${line#*$'	'}
        (( ${#value} > width )) && width=${#value}
        if [[ $value == *[=:] ]]; then open+=("$value"); else whole+=("$value"); fi
    done
    for suffix in '' ' '; do
        if [[ $suffix == ' ' ]]; then open=("${whole[@]}"); fi
        list=()
        for value in "${open[@]}"; do
            line="${(r:width:)value}${about[$value]:+  -- ${about[$value]}}"
            list+=("${line[1,COLUMNS - 1]}")
        done
        compadd ${${about[*]// /}:+-l} -S "$suffix" -d list -a open
    done
}
if [[ "$funcstack[1]" == _ioassay ]]; then _ioassay_completion "$@"; else compdef _ioassay_completion ioassay; fi
