_ioassay_completion() {
    mapfile -t COMPREPLY < <("$1" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    [[ ${COMPREPLY-} == *[=:] ]] && compopt -o nospace
}
complete -o default -F _ioassay_completion ioassay
