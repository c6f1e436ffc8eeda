//! Which calls of `getaddrinfo` cannot block: those for a numeric address, for no host, and for a name in the hosts
//! file. Both languages make these calls on the loop's thread and all others in a thread of the executor. The C library
//! answers in either case, so the results do not depend on this module.
//!
//! `false` from [`LookupRules::can_block`] is a promise; `true` only costs a thread.

mod cached_file;
mod hosts_file;
mod nsswitch;

use cached_file::CachedFile;
use hosts_file::HostsFile;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// The flags under which a name of the hosts file is looked up in this file only. Others can add a search for a
/// canonical name or for a second family.
const FLAGS_FOR_NAMES: i32 = libc::AI_PASSIVE | libc::AI_NUMERICSERV | libc::AI_ADDRCONFIG;

/// The arguments of `getaddrinfo` that decide whether it can block.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The host.
    pub host: Option<&'a [u8]>,
    /// The name or the number of the service. `None` for no service and for a number that is not text.
    pub service: Option<&'a [u8]>,
    /// The address family.
    pub family: i32,
    /// The flags: `AI_PASSIVE` and others.
    pub flags: i32,
}

/// What the system's configuration says about lookups. Files are read again when they have changed.
#[derive(Debug)]
pub struct LookupRules {
    hosts: CachedFile<HostsFile>,
    /// Whether the hosts file is searched before every other source.
    hosts_file_is_first: CachedFile<bool>,
    /// The name service cache daemon. If it runs, the C library waits for its answer before reading the hosts file.
    nscd_socket: PathBuf,
}

impl Default for LookupRules {
    /// The rules of this system.
    fn default() -> Self {
        Self::with_files("/etc/hosts", "/etc/nsswitch.conf", "/var/run/nscd/socket")
    }
}

impl LookupRules {
    /// The rules of a system with these files.
    pub fn with_files(
        hosts: impl AsRef<Path>,
        nsswitch: impl AsRef<Path>,
        nscd_socket: impl AsRef<Path>,
    ) -> Self {
        LookupRules {
            hosts: CachedFile::new(hosts.as_ref(), HostsFile::parse),
            hosts_file_is_first: CachedFile::new(nsswitch.as_ref(), nsswitch::hosts_file_is_first),
            nscd_socket: nscd_socket.as_ref().to_owned(),
        }
    }

    /// Whether the C library may wait for something, such as a name server, before it answers the query.
    pub fn can_block(&mut self, query: &Query<'_>) -> bool {
        let Query { host, service, family, flags } = *query;
        let is_service_number = flags & libc::AI_NUMERICSERV != 0 || service.is_none_or(is_number);
        if !is_service_number {
            return true;
        }
        let Some(host) = host else { return false };
        if flags & libc::AI_NUMERICHOST != 0 || is_address(host) {
            return false;
        }
        flags & !FLAGS_FOR_NAMES != 0 || !self.is_in_hosts_file(host, family, flags)
    }

    /// Whether the C library finds the name in the hosts file and searches no further.
    fn is_in_hosts_file(&mut self, host: &[u8], family: i32, flags: i32) -> bool {
        let Some(families) = self.hosts.read().and_then(|hosts| hosts.families(host)) else { return false };
        let is_found = match family {
            // The family that this machine has no address of is not looked up, and which one that is can change.
            libc::AF_UNSPEC if flags & libc::AI_ADDRCONFIG != 0 => families.has_v4 && families.has_v6,
            libc::AF_UNSPEC => families.has_v4 || families.has_v6,
            libc::AF_INET => families.has_v4,
            libc::AF_INET6 => families.has_v6,
            _ => false,
        };
        is_found
            && self.hosts_file_is_first.read().is_some_and(|is_first| *is_first)
            && !self.nscd_socket.exists()
    }
}

fn is_number(service: &[u8]) -> bool {
    !service.is_empty() && service.iter().all(u8::is_ascii_digit)
}

/// Whether this is a numeric address in the usual form. Abbreviated forms, which the C library accepts too, are not
/// recognised.
fn is_address(host: &[u8]) -> bool {
    let Ok(host) = str::from_utf8(host) else { return false };
    // The C library checks the name of an interface after an IPv6 address, and fails at once if there is none.
    let without_scope = host.split('%').next().unwrap_or_default();
    host.parse::<Ipv4Addr>().is_ok() || without_scope.parse::<Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests;
