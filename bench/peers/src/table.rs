//! The table: medians with the lowest and highest figure, and the ratio to tokio in the same round.

use crate::rows::{Row, Runtime};
use crate::runner::Figure;
use std::fmt;

/// The figures of one runtime on one row, one per round.
#[derive(Default)]
struct Cell {
    values: Vec<f64>,
    cpu: Vec<f64>,
}

pub struct Table {
    rows: Vec<(Row, [Cell; Runtime::ALL.len()])>,
}

impl Table {
    pub fn new(rows: &[Row]) -> Self {
        Table { rows: rows.iter().map(|&row| (row, Default::default())).collect() }
    }

    pub fn add(&mut self, row: Row, runtime: Runtime, figure: Figure) {
        if let Some((_, cells)) = self.rows.iter_mut().find(|(known, _)| *known == row) {
            let cell = &mut cells[runtime as usize];
            cell.values.push(figure.value);
            cell.cpu.extend(figure.cpu);
        }
    }
}

pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Formats a figure with about three digits.
fn short(value: f64) -> String {
    match value {
        value if value >= 100_000.0 => format!("{:.0}k", value / 1_000.0),
        value if value >= 10_000.0 => format!("{:.1}k", value / 1_000.0),
        value if value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

/// The median of the ratios of `values` to `base` in the same round; above 1 is better.
fn ratio(values: &[f64], base: &[f64], is_rate: bool) -> f64 {
    let better = |(value, base): (&f64, &f64)| if is_rate { value / base } else { base / value };
    median(&values.iter().zip(base).map(better).collect::<Vec<_>>())
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounds = self.rows.iter().map(|(_, cells)| cells[0].values.len()).max().unwrap_or(0);
        writeln!(
            f,
            "\nMedians of {rounds} rounds (lowest..highest), and the median ratio to tokio in the same round; above 1 is better.\n"
        )?;
        header(f, "")?;
        let (mut ahead, mut first_or_level) = (0, 0);
        for (row, cells) in &self.rows {
            let title = format!("{}, {}", row.title(), row.unit());
            let values = cells.each_ref().map(|cell| cell.values.as_slice());
            ahead += usize::from(line(f, &title, values, row.is_rate())? > 1.0);
            first_or_level += usize::from(ratio_to_best_peer(values, row.is_rate()) >= LEVEL);
        }
        if self.rows.iter().any(|(row, _)| row.is_rate()) {
            writeln!(f, "\nServer CPU time per echo; not counted below.\n")?;
            header(f, "")?;
            for (row, cells) in self.rows.iter().filter(|(row, _)| row.is_rate()) {
                let title = format!("{}, ns", row.title());
                line(f, &title, cells.each_ref().map(|cell| cell.cpu.as_slice()), false)?;
            }
        }
        writeln!(f, "\nahead of tokio on {ahead} of {} rows", self.rows.len())?;
        writeln!(f, "first or level on {first_or_level} of {} rows", self.rows.len())
    }
}

/// A ratio to the best peer of at least this is level with it: the rounds of one runtime differ by more.
const LEVEL: f64 = 0.95;

/// The lowest of the ratios of mainspring to its peers; above 1 is better.
fn ratio_to_best_peer(values: [&[f64]; Runtime::ALL.len()], is_rate: bool) -> f64 {
    let own = values[Runtime::Mainspring as usize];
    let peers = Runtime::ALL.into_iter().filter(|&runtime| runtime != Runtime::Mainspring);
    let measured = peers.map(|runtime| values[runtime as usize]).filter(|values| !values.is_empty());
    measured.map(|peer| ratio(own, peer, is_rate)).fold(f64::INFINITY, f64::min)
}

fn header(f: &mut fmt::Formatter<'_>, title: &str) -> fmt::Result {
    write!(f, "| {title:<38} |")?;
    for runtime in Runtime::ALL {
        write!(f, " {:<30} |", runtime.name())?;
    }
    write!(f, "\n| {:-<38} |", "")?;
    for _ in Runtime::ALL {
        write!(f, " {:-<30} |", "")?;
    }
    writeln!(f)
}

/// Writes a line. Returns the ratio of mainspring to tokio.
fn line(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    values: [&[f64]; Runtime::ALL.len()],
    is_rate: bool,
) -> Result<f64, fmt::Error> {
    let base = values[Runtime::Tokio as usize];
    write!(f, "| {title:<38} |")?;
    for values in values {
        let text = if values.is_empty() {
            "–".to_owned()
        } else {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(0.0, f64::max);
            let ratio = ratio(values, base, is_rate);
            format!("{} ({}..{}) **{ratio:.2}**", short(median(values)), short(low), short(high))
        };
        write!(f, " {text:<30} |")?;
    }
    writeln!(f)?;
    Ok(ratio(values[Runtime::Mainspring as usize], base, is_rate))
}
