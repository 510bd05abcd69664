# The tutorial of the book, command by command, as a new user types it; at the end the machine is as before.
# guest: 6.12-rt --systemd
. /host/lib.sh
snapshot /tmp/before
tutorial
as_before "after the tutorial the machine is as before" /tmp/before
finish
