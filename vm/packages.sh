# Sourced by the scripts that download packages of Debian, on any distribution.

# ---- the mirror, and apt with private lists --------------------------------------------------
# The lists are private, so any release is available on any host, and the host's apt does not change. Proxies and
# credentials of the host's configuration still apply.
mirror() {
    [ -z "${CPUSHIELD_MIRROR:-}" ] || { echo "${CPUSHIELD_MIRROR%/}"; return; }
    apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' |
        sed -n 's,^Debian|Debian|\(.*[^/]\)/*$,\1,p' | head -n 1
}
private_apt() { # command and arguments
    local tool=$1
    shift
    "$tool" -o Dir::State="$cache/apt/state" -o Dir::Cache="$cache/apt/cache" \
        -o Dir::State::status="$cache/apt/status" -o Dir::Etc::SourceList="$cache/apt/sources.list" \
        -o Dir::Etc::SourceParts=- -o Acquire::Languages=none -o APT::Architecture=amd64 \
        -o APT::Sandbox::User= "$@"
}
private_lists() {
    local suite
    mkdir -p "$cache"/apt/{state/lists/partial,cache/archives/partial}
    : >"$cache/apt/status"
    for suite in "$@"; do
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main"
    done >"$cache/apt/sources.list"
    private_apt apt-get update -qq
}
