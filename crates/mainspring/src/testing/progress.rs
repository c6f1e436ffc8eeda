//! A progress bar on the standard error, if that is a terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(100);
const WIDTH: u64 = 30;

pub(super) struct Progress {
    /// `None` if the number of runs is not known.
    total: Option<u64>,
    is_terminal: bool,
    shown: Option<Instant>,
}

impl Progress {
    /// `size_hint` is that of the iterator over the seeds.
    pub(super) fn new(size_hint: (usize, Option<usize>)) -> Self {
        let is_exact = size_hint.1 == Some(size_hint.0);
        let total = is_exact.then_some(size_hint.0 as u64);
        Progress { total, is_terminal: io::stderr().is_terminal(), shown: None }
    }

    /// Shows that `done` runs have ended and the run with `seed` begins.
    pub(super) fn show(&mut self, done: u64, seed: u64) {
        let is_due = self.shown.is_none_or(|shown| shown.elapsed() >= INTERVAL);
        if self.is_terminal && is_due {
            self.shown = Some(Instant::now());
            print(&line(done, self.total, seed));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            print("");
        }
    }
}

/// Replaces the current line of the terminal.
fn print(line: &str) {
    // A terminal that is gone shows no progress.
    let _ = write!(io::stderr(), "\r{line}\x1b[K").and_then(|()| io::stderr().flush());
}

fn line(done: u64, total: Option<u64>, seed: u64) -> String {
    match total.filter(|&total| total > 0) {
        Some(total) => {
            let filled = (done.saturating_mul(WIDTH) / total).min(WIDTH) as usize;
            let bar = "#".repeat(filled);
            format!("[{bar:<30}] {done}/{total} seeds, now {seed}")
        }
        None => format!("{done} seeds, now {seed}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_grows_with_the_number_of_runs() {
        assert_eq!(line(0, Some(4), 7), format!("[{}] 0/4 seeds, now 7", " ".repeat(30)));
        assert_eq!(line(2, Some(4), 9), format!("[{}{}] 2/4 seeds, now 9", "#".repeat(15), " ".repeat(15)));
        assert_eq!(line(4, Some(4), 1), format!("[{}] 4/4 seeds, now 1", "#".repeat(30)));
    }

    #[test]
    fn seeds_without_a_known_number_have_no_bar() {
        assert_eq!(line(3, None, 5), "3 seeds, now 5");
        assert_eq!(Progress::new((0, None)).total, None);
        assert_eq!(Progress::new((5, Some(5))).total, Some(5));
    }
}
