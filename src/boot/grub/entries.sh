tell() {
    echo "cpushield: $*" >&2
}

# Prints the entries of the chosen kernels with these parameters. A failure here must not keep a new
# kernel from being entered: it is reported on standard error, and nothing is printed.
enter() { # parameters
    dir=${0%/*}
    [ -x "$dir/10_linux" ] || {
        tell "there is no $dir/10_linux, so no entries are made"
        exit 0
    }
    entries=$(
        GRUB_CMDLINE_LINUX="$1${GRUB_CMDLINE_LINUX:+ $GRUB_CMDLINE_LINUX}"
        GRUB_DISABLE_SUBMENU=y
        GRUB_DISABLE_RECOVERY=true
        GRUB_DISABLE_LINUX_RECOVERY=true
        GRUB_ACTUAL_DEFAULT=
        export GRUB_CMDLINE_LINUX GRUB_DISABLE_SUBMENU GRUB_DISABLE_RECOVERY GRUB_ACTUAL_DEFAULT
        export GRUB_DISABLE_LINUX_RECOVERY
        "$dir/10_linux" 2>/dev/null
    ) || {
        tell "$dir/10_linux failed, so no entries are made"
        exit 0
    }

    seen=
    entry=
    version=
    quote="'"
    printf '%s\n' "$entries" | while IFS= read -r line; do
        # Old ones make submenus despite GRUB_DISABLE_SUBMENU.
        bare=${line#"${line%%[!	 ]*}"}
        case $bare in
        'menuentry '*)
            entry=$bare
            version=
            continue
            ;;
        esac
        [ -n "$entry" ] || continue
        entry="$entry
$line"
        case $bare in
        *linux*[/\ ]vmlinuz-* | *linux*[/\ ]vmlinux-* | *linux*[/\ ]kernel-*)
            # The first word that is a kernel's file, without its directory.
            set -f
            for word in $line; do
                case ${word##*/} in
                vmlinuz-* | vmlinux-* | kernel-*)
                    [ -n "$version" ] || version=${word##*/}
                    ;;
                esac
            done
            set +f
            ;;
        '}')
            version=${version%.efi.signed}
            version=${version#*-}
            # The entries of kernels for repairs stay without the parameters.
            case $version in
            0-rescue | 0-rescue-* | *kdump* | *memtest*) version= ;;
            esac
            case " $seen " in
            *" $version "*) ;;
            *)
                if [ -n "$version" ] && chosen "$version"; then
                    head=${entry%%"
"*}
                    rest=${entry#*"
"}
                    before=${head%%"$quote --class"*}
                    # Without classes the title is left alone: the id tells the entries apart.
                    if [ "$before" != "$head" ]; then
                        head="$before (@TITLE@)$quote --class${head#*"$quote --class"}"
                    fi
                    case $head in
                    *menuentry_id_option*)
                        head="${head%%menuentry_id_option*}menuentry_id_option '@ID@$version' {"
                        ;;
                    *) head="${head%\{}--id '@ID@$version' {" ;;
                    esac
                    printf '%s\n%s\n' "$head" "$rest"
                fi
                [ -z "$version" ] || seen="$seen $version"
                ;;
            esac
            entry=
            ;;
        esac
    done
}
