//! `--gc-log`, `--gc-stats` and `--gc-report`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use legato::{GcObserver, HeapConfig, HeapStats};
use legato_report::{Fanout, GcLog, GcRecorder, Report};

use crate::args::{GcArgs, STANDARD, StatsFormat};
use crate::report;

/// What is asked about the collector.
pub struct Watch {
    log: Option<Box<dyn Write + Send>>,
    stats: Option<StatsFormat>,
    page: Option<Page>,
    /// If anything is to be told at the end.
    recorder: Option<GcRecorder>,
    program: String,
    configuration: Vec<(&'static str, String)>,
}

/// The file of `--gc-report`.
struct Page {
    path: PathBuf,
    file: File,
}

impl Watch {
    /// Prepares for what the options ask. Call it when the heap has just been made.
    ///
    /// # Errors
    ///
    /// If the report could not be written.
    pub fn new(args: &GcArgs, program: &Path, config: &HeapConfig) -> Result<Watch> {
        let page = args.gc_report.as_deref().map(Page::open).transpose()?;
        let recorder = match (&page, args.gc_stats) {
            (Some(_), _) => Some(GcRecorder::with_events()),
            (None, Some(_)) => Some(GcRecorder::new()),
            (None, None) => None,
        };
        Ok(Watch {
            log: args.gc_log.as_deref().map(log).transpose()?,
            stats: args.gc_stats,
            page,
            recorder,
            program: program.display().to_string(),
            configuration: config.settings(),
        })
    }

    /// The observer that the heap needs for it, if any. To be asked for once.
    pub fn observer(&mut self) -> Option<Box<dyn GcObserver>> {
        let mut observers = Fanout::new();
        if let Some(log) = self.log.take() {
            observers = observers.with(GcLog::new(log));
        }
        if let Some(recorder) = &self.recorder {
            observers = observers.with(recorder.clone());
        }
        if observers.is_empty() { None } else { Some(Box::new(observers)) }
    }

    /// Tells what is to be told at the end, and returns the exit status that this deserves; an error has been printed.
    /// `heap` is missing if the program had to be left in the middle of something.
    pub fn finish(self, outcome: &str, heap: Option<HeapStats>) -> i32 {
        let Some(recorder) = self.recorder else { return 0 };
        let told = Report::new(self.program, outcome, self.configuration, recorder.record(), heap);
        let status = report::status(self.page.map_or(Ok(()), |page| page.write(&told.html())));
        // These are the last words, whatever happened.
        match self.stats {
            Some(StatsFormat::Json) => report::complain(told.json()),
            Some(StatsFormat::Text) => report::complain(&told),
            None => {}
        }
        status
    }
}

/// Where the log goes.
fn log(path: &Path) -> Result<Box<dyn Write + Send>> {
    if path == STANDARD {
        return Ok(Box::new(io::stderr()));
    }
    let file = File::create(path).with_context(|| format!("cannot write the log {} (--gc-log)", path.display()))?;
    Ok(Box::new(file))
}

impl Page {
    /// Opens the file before the program runs, so that it does not run in vain. An old report stays until there is a
    /// new one.
    fn open(path: &Path) -> Result<Page> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| format!("cannot write the report {} (--gc-report)", path.display()))?;
        Ok(Page { path: path.to_owned(), file })
    }

    fn write(mut self, html: &str) -> Result<()> {
        let regular = self.file.metadata().is_ok_and(|metadata| metadata.is_file());
        // Devices and pipes have no length.
        let emptied = if regular { self.file.set_len(0) } else { Ok(()) };
        emptied
            .and_then(|()| self.file.write_all(html.as_bytes()))
            .with_context(|| format!("cannot write the report {} (--gc-report)", self.path.display()))
    }
}
