//! The rows and the runtimes of the comparison.

/// The runtimes, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    Mainspring,
    Tokio,
    Smol,
    Monoio,
}

impl Runtime {
    pub const ALL: [Runtime; 4] = [Runtime::Mainspring, Runtime::Tokio, Runtime::Smol, Runtime::Monoio];

    pub const fn name(self) -> &'static str {
        match self {
            Runtime::Mainspring => "mainspring",
            Runtime::Tokio => "tokio",
            Runtime::Smol => "smol",
            Runtime::Monoio => "monoio",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|runtime| runtime.name() == name)
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    SpawnJoin,
    Yield,
    Timers,
    Channel,
    WakeUp,
    /// With this number of connections.
    Echo(usize),
    Memory,
}

impl Row {
    pub const ALL: [Row; 9] = [
        Row::SpawnJoin,
        Row::Yield,
        Row::Timers,
        Row::Channel,
        Row::WakeUp,
        Row::Echo(1),
        Row::Echo(100),
        Row::Echo(1_000),
        Row::Memory,
    ];

    /// The name in arguments.
    pub const fn name(self) -> &'static str {
        match self {
            Row::SpawnJoin => "spawn",
            Row::Yield => "yield",
            Row::Timers => "timers",
            Row::Channel => "channel",
            Row::WakeUp => "wake",
            Row::Echo(1) => "echo-1",
            Row::Echo(100) => "echo-100",
            Row::Echo(_) => "echo-1000",
            Row::Memory => "memory",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|row| row.name() == name)
    }

    /// The name in the table.
    pub const fn title(self) -> &'static str {
        match self {
            Row::SpawnJoin => "spawn and join",
            Row::Yield => "yield, 100 tasks",
            Row::Timers => "1M timers, set and cancelled",
            Row::Channel => "channel ping-pong",
            Row::WakeUp => "wake-up from a thread",
            Row::Echo(1) => "TCP echo, 1 connection",
            Row::Echo(100) => "TCP echo, 100 connections",
            Row::Echo(_) => "TCP echo, 1,000 connections",
            Row::Memory => "memory of an idle connection",
        }
    }

    pub const fn unit(self) -> &'static str {
        match self {
            Row::Echo(_) => "echoes/s",
            Row::Memory => "bytes",
            _ => "ns",
        }
    }

    /// Whether a larger figure is better.
    pub const fn is_rate(self) -> bool {
        matches!(self, Row::Echo(_))
    }
}
