use super::{LookupRules, Query};
use libc::{
    AF_INET, AF_INET6, AF_UNIX, AF_UNSPEC, AI_ADDRCONFIG, AI_ALL, AI_CANONNAME, AI_NUMERICHOST,
    AI_NUMERICSERV, AI_PASSIVE, AI_V4MAPPED,
};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

const HOSTS: &str = "# a comment\n\
    127.0.0.1 localhost both # commented\n\
    \t::1\tip6-localhost   both\r\n\
    127.1 abbreviated\n\
    ::ffff:10.0.0.1 mapped\n\
    fe80::1%lo scoped\n\
    10.0.0.1\n\
    no-address\n\
    10.0.0.2\x0bvertical\0hidden";

/// A folder with the files of a system.
struct System {
    folder: PathBuf,
    rules: LookupRules,
}

impl System {
    fn new(hosts: &str, nsswitch: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("mainspring-names-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [hosts_path, nsswitch_path, nscd] =
            ["hosts", "nsswitch.conf", "nscd"].map(|name| folder.join(name));
        fs::write(&hosts_path, hosts).unwrap();
        fs::write(&nsswitch_path, nsswitch).unwrap();
        System { folder, rules: LookupRules::with_files(hosts_path, nsswitch_path, nscd) }
    }

    fn usual() -> Self {
        System::new(HOSTS, "passwd: files\nhosts: files dns\n")
    }

    fn write(&self, name: &str, contents: &str) {
        fs::write(self.folder.join(name), contents).unwrap();
    }

    fn can_block(&mut self, host: &str, family: i32, flags: i32) -> bool {
        self.rules.can_block(&Query { host: Some(host.as_bytes()), service: None, family, flags })
    }

    fn finds(&mut self, host: &str) -> bool {
        !self.can_block(host, AF_UNSPEC, 0)
    }
}

impl Drop for System {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

#[test]
fn addresses_never_block() {
    let mut system = System::new("", "");
    for host in ["127.0.0.1", "::1", "::ffff:1.2.3.4", "fe80::1%lo", "fe80::1%nosuchinterface", "::1%"] {
        for family in [AF_UNSPEC, AF_INET, AF_INET6, AF_UNIX] {
            for flags in [0, AI_CANONNAME, AI_V4MAPPED | AI_ALL, AI_ADDRCONFIG] {
                assert!(!system.can_block(host, family, flags), "{host} {family} {flags}");
            }
        }
    }
    for host in ["", "127.1", "127.0.0.1.", "127.0.0.1%lo", "[::1]", "%lo", "1", "localhost", "127.0.0.1\0"] {
        assert!(system.can_block(host, AF_UNSPEC, 0), "{host:?}");
        assert!(!system.can_block(host, AF_UNSPEC, AI_NUMERICHOST), "{host:?}");
    }
}

#[test]
fn the_name_of_a_service_can_block() {
    let mut rules = System::usual();
    let mut can_block =
        |host, service, flags| rules.rules.can_block(&Query { host, service, family: AF_UNSPEC, flags });
    for host in [None, Some(&b"127.0.0.1"[..]), Some(&b"localhost"[..])] {
        assert!(!can_block(host, None, 0));
        assert!(!can_block(host, Some(b"80"), 0));
        for service in ["http", "", "-1", "8o", " 80"] {
            assert!(can_block(host, Some(service.as_bytes()), 0), "{service}");
            assert!(!can_block(host, Some(service.as_bytes()), AI_NUMERICSERV), "{service}");
        }
    }
}

#[test]
fn names_of_the_hosts_file_do_not_block() {
    let mut system = System::usual();
    for host in ["localhost", "both", "ip6-localhost", "vertical"] {
        assert!(system.finds(host), "{host}");
    }
    let absent = [
        "LOCALHOST",
        "commented",
        "abbreviated",
        "mapped",
        "scoped",
        "hidden",
        "no-address",
        "10.0.0",
        "localhos",
        "localhost.",
        "a",
    ];
    for host in absent {
        assert!(!system.finds(host), "{host}");
    }
}

#[test]
fn a_name_is_looked_up_elsewhere_for_a_family_that_the_hosts_file_does_not_have() {
    let mut system = System::usual();
    let families = [AF_UNSPEC, AF_INET, AF_INET6, AF_UNIX];
    for (host, can_block) in [
        ("both", [false, false, false, true]),
        ("localhost", [false, false, true, true]),
        ("ip6-localhost", [false, true, false, true]),
    ] {
        assert_eq!(families.map(|family| system.can_block(host, family, 0)), can_block, "{host}");
    }
}

#[test]
fn a_name_without_a_configured_family_can_block() {
    let mut system = System::usual();
    assert!(!system.can_block("both", AF_UNSPEC, AI_ADDRCONFIG));
    assert!(system.can_block("localhost", AF_UNSPEC, AI_ADDRCONFIG));
    assert!(!system.can_block("localhost", AF_INET, AI_ADDRCONFIG));
}

#[test]
fn a_name_with_flags_that_extend_the_search_can_block() {
    let mut system = System::usual();
    assert!(!system.can_block("both", AF_UNSPEC, AI_PASSIVE | AI_NUMERICSERV));
    for flags in [AI_CANONNAME, AI_V4MAPPED, AI_ALL, AI_CANONNAME | AI_PASSIVE, 0x40, 1 << 30] {
        assert!(system.can_block("both", AF_INET6, flags), "{flags:#x}");
    }
}

#[test]
fn names_can_block_unless_the_hosts_file_is_the_first_source() {
    for (nsswitch, is_first) in [
        ("hosts: files dns", true),
        ("  hosts :\tfiles", true),
        ("hosts:files mdns4_minimal [NOTFOUND=return] dns # files", true),
        ("hosts: dns files", false),
        ("hosts: files [SUCCESS=merge] dns", false),
        ("hosts: files[SUCCESS=continue] dns", false),
        ("hosts: mymachines resolve [!UNAVAIL=return] files dns", false),
        ("# hosts: files", false),
        ("hosts: # files", false),
        ("hosts: files\nhosts: dns", false),
        ("hosts:", false),
        ("networks: files", false),
        ("", false),
    ] {
        assert_eq!(System::new(HOSTS, nsswitch).finds("localhost"), is_first, "{nsswitch}");
    }
}

#[test]
fn changed_files_are_read_again() {
    let mut system = System::usual();
    assert!(system.finds("localhost") && !system.finds("new"));
    system.write("hosts", "127.0.0.1 new");
    assert!(!system.finds("localhost") && system.finds("new"));
    // Replaced, as by most editors.
    system.write("edited", "127.0.0.1 now");
    fs::rename(system.folder.join("edited"), system.folder.join("hosts")).unwrap();
    assert!(!system.finds("new") && system.finds("now"));
    system.write("nsswitch.conf", "hosts: dns");
    assert!(!system.finds("now"));
    system.write("nsswitch.conf", "hosts: files dns");
    assert!(system.finds("now"));
    fs::remove_file(system.folder.join("hosts")).unwrap();
    assert!(!system.finds("now"));
    system.write("hosts", "127.0.0.1 now");
    assert!(system.finds("now"));
    fs::remove_file(system.folder.join("nsswitch.conf")).unwrap();
    assert!(!system.finds("now"));
}

#[test]
fn names_can_block_while_the_cache_daemon_runs() {
    let mut system = System::usual();
    assert!(system.finds("localhost"));
    system.write("nscd", "");
    assert!(!system.finds("localhost"));
    fs::remove_file(system.folder.join("nscd")).unwrap();
    assert!(system.finds("localhost"));
}

#[test]
fn a_large_hosts_file_is_not_used() {
    let mut system = System::usual();
    assert!(system.finds("localhost"));
    system.write("hosts", &format!("{HOSTS}\n{}", "#".repeat(64 * 1024)));
    assert!(!system.finds("localhost"));
    // A folder cannot be read.
    fs::remove_file(system.folder.join("hosts")).unwrap();
    fs::create_dir(system.folder.join("hosts")).unwrap();
    assert!(!system.finds("localhost"));
}
