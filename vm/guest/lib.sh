# For scenarios (`. /host/lib.sh`): claims in TAP, and facts read from the kernel's files by nothing
# but the shell, so that they do not depend on the code under test.
failed=0
ok() { echo "ok - $*"; }
not_ok() {
    echo "not ok - $*"
    failed=$((failed + 1))
}
skip() { echo "ok - $1 # SKIP $2"; }
# claim TEXT COMMAND…: ok when the command ends with 0; its output is shown when it does not.
claim() {
    local text=$1 said
    shift
    if said=$("$@" 2>&1); then ok "$text"; else
        not_ok "$text"
        echo "$said" | sed 's/^/#   /'
    fi
}
# is TEXT WANTED COMMAND…: ok when the command prints exactly WANTED.
is() {
    local text=$1 wanted=$2 got
    shift 2
    got=$("$@" 2>&1)
    if [ "$got" = "$wanted" ]; then ok "$text"; else
        not_ok "$text"
        printf '#   wanted: %s\n#   got:    %s\n' "$wanted" "$got"
    fi
}
# status TEXT CODE COMMAND…: ok when the command ends with CODE; its output is shown when it does not.
status() {
    local text=$1 wanted=$2 said code
    shift 2
    said=$("$@" 2>&1)
    code=$?
    if [ $code = "$wanted" ]; then ok "$text"; else
        not_ok "$text (exit status $code, wanted $wanted)"
        echo "$said" | sed 's/^/#   /'
    fi
}
# Last line of every scenario.
finish() {
    echo "# $failed failed"
    [ "$failed" = 0 ]
    exit
}
# Ends the scenario as skipped when the binary does not know the subcommand yet.
needs() {
    local command
    for command in "$@"; do
        cpushield help "$command" >/dev/null 2>&1 || {
            skip "$command" "this cpushield has no $command"
            finish
        }
    done
}
