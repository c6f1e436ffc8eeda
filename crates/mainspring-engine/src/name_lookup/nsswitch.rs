//! `/etc/nsswitch.conf`: the order of the sources of host names.

/// Whether host names are looked up in the hosts file before any other source, and a name that is found there nowhere
/// else. `false` if the file does not say so: the defaults of C libraries differ.
pub fn hosts_file_is_first(contents: &[u8]) -> bool {
    let Ok(contents) = str::from_utf8(contents) else { return false };
    let mut entries = contents.lines().filter_map(|line| {
        let (database, sources) = line.split('#').next()?.split_once(':')?;
        (database.trim() == "hosts").then_some(sources)
    });
    let (Some(sources), None) = (entries.next(), entries.next()) else { return false };
    let mut words = sources.split_whitespace();
    // An action in brackets after a source can make the search continue.
    words.next() == Some("files") && !words.next().is_some_and(|word| word.starts_with('['))
}
