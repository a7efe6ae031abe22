# Multiply one number of a tool's output by `factor`: the one behind the last part of `path`, each part of which is a
# regular expression that is searched behind the part before it. What it was and became goes to the pipe $EDITED.
BEGIN { steps = split(path, step, " > "); at = 1 }
{
    head = ""; rest = $0
    while (at <= steps && match(rest, step[at])) {
        before = substr(rest, 1, RSTART + RLENGTH - 1); behind = substr(rest, RSTART + RLENGTH)
        if (at == steps) {
            if (!match(behind, /^ *[0-9]+(\.[0-9]+)?/)) break
            old = substr(behind, RSTART, RLENGTH); behind = substr(behind, RSTART + RLENGTH)
            blanks = old; sub(/[0-9].*/, "", blanks); sub(/^ */, "", old)
            decimals = index(old, ".") ? length(old) - index(old, ".") : 0
            new = sprintf("%." decimals "f", old * factor)
            before = before blanks new
            print old, new > ENVIRON["EDITED"]
        }
        at++; head = head before; rest = behind
    }
    print head rest
    fflush()
}
