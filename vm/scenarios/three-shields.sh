# Three shields: in every order of undo, the machine is as if only those that stay had ever been applied.
# `cpushield.orders` is how many orders are tried; all six without it.
# guest: 6.12-rt --timeout 600 --append cpushield.orders=2
# guest, slow: 6.12-rt --timeout 900
# guest, slow: 6.1-rt --cgroup v1 --timeout 900
# guest, slow: 6.12-rt --systemd --timeout 1200
# guest, slow: sid-rt --timeout 900
. /host/lib.sh
needs apply undo status
declare -A cpu=([a]=1 [b]=2 [c]=3)
make() { # NAME…: these shields, in this order
    local name
    for name; do
        cpushield apply --shield "$name" --cpus "${cpu[$name]}" >/tmp/apply 2>&1 || not_ok "apply of $name: $(cat /tmp/apply)"
    done
}
# The groups and the lists of the kernel appear with the first shields, so all have been made once before.
make a b c
status "undo of all" 0 cpushield undo --all
for names in a b c "a b" "a c" "b c"; do
    make $names
    snapshot "/tmp/only-${names// /}"
    status "undo of $names" 0 cpushield undo --all
done
snapshot /tmp/before

orders=$(sed -n 's/.*cpushield\.orders=\([0-9]*\).*/\1/p' /proc/cmdline)
tried=0
for order in "b a c" "c a b" "a b c" "a c b" "b c a" "c b a"; do
    tried=$((tried + 1))
    [ $tried -le "${orders:-6}" ] || break
    read -r first second third <<<"$order"
    make a b c
    status "all three are active" 0 cpushield status
    status "undo of $first" 0 cpushield undo --shield "$first"
    left=$(printf '%s\n' "$second" "$third" | sort | tr -d '\n')
    as_before "$order: only $second and $third were ever applied" "/tmp/only-$left"
    status "undo of $second" 0 cpushield undo --shield "$second"
    as_before "$order: only $third was ever applied" "/tmp/only-$third"
    status "undo of $third" 0 cpushield undo
    as_before "$order: as before" /tmp/before
done
finish
