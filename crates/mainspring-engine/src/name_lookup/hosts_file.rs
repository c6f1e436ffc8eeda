//! The names in a hosts file. A name or an address in a form that C libraries read differently is left out.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The names of the hosts file, as they are written: glibc ignores case, musl does not.
#[derive(Debug)]
pub struct HostsFile {
    names: HashMap<Box<[u8]>, Families>,
}

/// The families of the addresses that a name has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Families {
    pub has_v4: bool,
    pub has_v6: bool,
}

impl HostsFile {
    pub fn parse(contents: &[u8]) -> Self {
        let mut names: HashMap<Box<[u8]>, Families> = HashMap::new();
        for line in contents.split(|byte| *byte == b'\n') {
            // In C a line ends at a null byte.
            let line = line.split(|byte| matches!(byte, b'#' | 0)).next().unwrap_or_default();
            let mut words = line.split(is_space).filter(|word| !word.is_empty());
            let Some(address) = words.next().and_then(|word| str::from_utf8(word).ok()) else { continue };
            let has_v4 = address.parse::<Ipv4Addr>().is_ok();
            // The C library can treat an IPv4-mapped address as either family.
            let has_v6 = address.parse::<Ipv6Addr>().is_ok_and(|address| address.to_ipv4_mapped().is_none());
            for name in words {
                let families = names.entry(name.into()).or_default();
                families.has_v4 |= has_v4;
                families.has_v6 |= has_v6;
            }
        }
        HostsFile { names }
    }

    /// The families of the addresses of a name; `None` if the file does not have the name.
    pub fn families(&self, name: &[u8]) -> Option<Families> {
        self.names.get(name).copied()
    }
}

/// As `isspace` in C.
fn is_space(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || *byte == b'\x0b'
}
