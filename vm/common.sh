# Sourced by the scripts of this directory: the path of the cache, messages, and `run_guest`.
cache=${CPUSHIELD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cpushield/vm}
say() { echo "vm: $*" >&2; }
die() {
    say "$@"
    exit 1
}
PATH=$PATH:/usr/sbin:/sbin # depmod and mke2fs, for users
PATH=$PATH:$HOME/.cargo/bin
vm_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# "${run_guest[@]}" [options] KERNEL SCRIPT [ARGUMENT…]: boots a guest (`cargo xtask vm run --help`). A task of xtask
# that runs a script names itself in CPUSHIELD_XTASK. cargo replaces itself with the task, so a signal reaches it.
run_guest=(cargo run --quiet --manifest-path "$vm_dir/../Cargo.toml" --package xtask -- vm run)
[ -z "${CPUSHIELD_XTASK:-}" ] || run_guest=("$CPUSHIELD_XTASK" vm run)
