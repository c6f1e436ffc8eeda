//! Streams on any fd.

use super::blocking_file::BlockingFile;
use super::ends::{ReadEnd, WriteEnd};
use crate::event_loop::{Core, current_core};
use crate::net::connection::ProtocolRef;
use crate::net::{DEFAULT_LIMIT, Stream, StreamReader, StreamWriter, Transport};
use mainspring_engine::transport::{PipeKind, prepare_pipe};
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

/// Reads `file` as a stream on the running loop.
///
/// The loop polls a pipe, fifo, socket or terminal; it becomes non-blocking, also for others that share the open
/// file. A regular file or another device is read by the executor.
///
/// ```
/// # mainspring::run(async {
/// let (reader, mut writer) = std::io::pipe()?;
/// let reader = mainspring::pipe::reader(reader)?;
/// std::io::Write::write_all(&mut writer, b"one\ntwo\n")?;
/// assert_eq!(reader.read_line().await?, b"one\n");
///
/// let file = mainspring::pipe::reader(std::fs::File::open("Cargo.toml")?)?;
/// assert_eq!(file.read_to_end().await?, std::fs::read("Cargo.toml")?);
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn reader(file: impl Into<OwnedFd>) -> io::Result<StreamReader> {
    reader_on(&current_core()?, file.into())
}

/// Writes `file` as a stream on the running loop. The conditions for `file` are those of [`reader`].
///
/// Dropping the writer closes the file after the write buffer is written. If the loop is closed earlier, data for the
/// executor is still written; data that waits for a slow pipe is lost.
///
/// ```
/// # mainspring::run(async {
/// let (reader, writer) = std::io::pipe()?;
/// let writer = mainspring::pipe::writer(writer)?;
/// writer.write_all(b"through the pipe").await?;
/// drop(writer);
/// assert_eq!(mainspring::pipe::reader(reader)?.read_to_end().await?, b"through the pipe");
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn writer(file: impl Into<OwnedFd>) -> io::Result<StreamWriter> {
    writer_on(&current_core()?, file.into())
}

pub(crate) fn reader_on(core: &Rc<Core>, file: OwnedFd) -> io::Result<StreamReader> {
    core.check_open()?;
    let open: Open<'_> = match prepare_if_pollable(&file)? {
        Some(_) => Box::new(|protocol| ReadEnd::open(core, file, protocol)),
        None => Box::new(|protocol| BlockingFile::open_reading(core, file, protocol)),
    };
    Ok(Stream::open(DEFAULT_LIMIT, open).into_split().0)
}

pub(crate) fn writer_on(core: &Rc<Core>, file: OwnedFd) -> io::Result<StreamWriter> {
    core.check_open()?;
    let open: Open<'_> = match prepare_if_pollable(&file)? {
        Some(kind) => Box::new(move |protocol| WriteEnd::open(core, file, kind, protocol)),
        None => Box::new(|protocol| BlockingFile::open_writing(core, file, protocol)),
    };
    Ok(Stream::open(DEFAULT_LIMIT, open).into_split().1)
}

/// As [`reader_on`], for a shared file that must stay blocking.
pub(super) fn blocking_reader(core: &Rc<Core>, file: OwnedFd) -> StreamReader {
    Stream::open(DEFAULT_LIMIT, |protocol| BlockingFile::open_reading(core, file, protocol)).into_split().0
}

/// As [`writer_on`], for a shared file that must stay blocking.
pub(super) fn blocking_writer(core: &Rc<Core>, file: OwnedFd) -> StreamWriter {
    Stream::open(DEFAULT_LIMIT, |protocol| BlockingFile::open_writing(core, file, protocol)).into_split().1
}

type Open<'a> = Box<dyn FnOnce(ProtocolRef) -> Transport + 'a>;

/// Makes the file non-blocking and returns its kind, if epoll supports it. Terminals are the only supported devices:
/// epoll refuses `/dev/null`.
fn prepare_if_pollable(file: &OwnedFd) -> io::Result<Option<PipeKind>> {
    let is_device = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode)
        == rustix::fs::FileType::CharacterDevice;
    if is_device && !file.as_fd().is_terminal() { Ok(None) } else { prepare_pipe(file) }
}
