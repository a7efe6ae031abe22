function __ioassay_completion
    set --local words (commandline --current-process --tokenize --cut-at-cursor)
    set --local token (commandline --current-token --cut-at-cursor)
    set --local candidates ($words[1] --candidates $words[2..-1] "$token" 2>/dev/null)
    if set --query candidates[1]
        printf '%s\n' $candidates
    else
        __fish_complete_path "$token"
    end
end
complete --command ioassay --no-files --arguments '(__ioassay_completion)'
