# Sourced by the scripts of this directory: the path of the cache, and messages.
cache=${CPUSHIELD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cpushield/vm}
say() { echo "vm: $*" >&2; }
die() {
    say "$@"
    exit 1
}
PATH=$PATH:/usr/sbin:/sbin # depmod and mke2fs, for users
