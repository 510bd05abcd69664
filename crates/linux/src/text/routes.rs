//! The interfaces of default routes, in `/proc/net/route` (`fib_route_seq_show()`,
//! net/ipv4/fib_trie.c) and `/proc/net/ipv6_route` (`ipv6_route_native_seq_show()`,
//! net/ipv6/ip6_fib.c, 6.12). Lines of another form are skipped.

/// A route is usable (`RTF_UP`, include/uapi/linux/route.h).
const UP: u32 = 0x1;
/// A route that refuses packets (`RTF_REJECT`).
const REJECT: u32 = 0x200;

/// The interfaces of the default routes in `/proc/net/route`.
#[must_use]
pub fn default_interfaces(route: &str) -> Vec<&str> {
    let lines = route.lines().skip(1).map(|line| line.split('\t').map(str::trim));
    let interfaces = lines.filter_map(|mut fields| {
        let (name, destination) = (fields.next()?, fields.next()?);
        let (_gateway, flags) = (fields.next()?, fields.next()?);
        // Reference count, use, metric; then the mask.
        let mask = fields.nth(3)?;
        let default = destination == "00000000" && mask == "00000000";
        (default && is_usable(flags)).then_some(name)
    });
    interfaces.collect()
}

/// The interfaces of the default routes in `/proc/net/ipv6_route`.
#[must_use]
pub fn default_interfaces_v6(route: &str) -> Vec<&str> {
    let interfaces = route.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [destination, length, _, _, _, _, _, _, flags, name] = fields.as_slice() else {
            return None;
        };
        let default = *length == "00" && destination.bytes().all(|byte| byte == b'0');
        (default && *name != "lo" && is_usable(flags)).then_some(*name)
    });
    interfaces.collect()
}

fn is_usable(flags: &str) -> bool {
    let flags = u32::from_str_radix(flags, 16).unwrap_or(0);
    flags & UP != 0 && flags & REJECT == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 6.12, without the spaces that fill each line.
    const ROUTE: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
eth0\t00000000\t0202000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
eth0\t0002000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n\
*\t00000000\t00000000\t0200\t0\t0\t4278198272\t00000000\t0\t0\t0\n";

    #[test]
    fn only_usable_default_routes_count() {
        assert_eq!(default_interfaces(ROUTE), ["eth0"]);
        // 6.12: on the link, a router, and the route that refuses all other packets.
        let zeros = "0".repeat(32);
        let text = format!(
            "fe80{}0000 40 {zeros} 00 {zeros} 00000100 00000001 00000000 00000001     eth0\n\
             {zeros} 00 {zeros} 00 {zeros} 00000400 00000001 00000000 00450003     eth1\n\
             {zeros} 00 {zeros} 00 {zeros} ffffffff 00000001 00000000 00200200       lo\n",
            "0".repeat(24)
        );
        assert_eq!(default_interfaces_v6(&text), ["eth1"]);
        assert_eq!(default_interfaces(ROUTE.lines().next().unwrap()), [""; 0]);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "[0-9a-f \t\n]{0,200}") {
            let _ = (default_interfaces(&text), default_interfaces_v6(&text));
        }
    }
}
