//! Lines of any layout, as a regular expression describes them: its named groups are columns, called as those of `csv`.
//!
//! It searches in a line, wherever it stands; `^` and `$` tie it to the ends. A search takes a time that is linear in the
//! line's length. Where the names say no unit, and how kinds are coded, the options of `csv` say it.

use regex::bytes::{CaptureLocations, Regex, RegexBuilder};

use super::ReadOptions;
use super::csv;
use super::fields::Fields;
use super::format::{ALL_KINDS, COMMAS, Format};
use super::lines::Line;
use super::table::{Column, ColumnReader, without_range_of_flush};
use super::text::{self, LineParser};
use crate::{Error, Fault, Kind, Request};

pub(super) const FORMAT: Format = Format {
    name: "regex",
    about: "lines of any layout, by --pattern",
    columns: "time, kind, offset, length and perhaps device, by the names of groups",
    kinds: ALL_KINDS,
    reader: |format, input, options| Ok(text::source(format, input, Parser::of(options)?, options)),
    writer: None,
    probe: |format, _| Err((0, Error::Nothing { format: format.name, seen: "no pattern".into() })),
    ..COMMAS
};

/// What a compiled pattern may take of memory: a thousand times what a usual one does.
const MOST_PATTERN_BYTES: usize = 1 << 22;

struct Parser {
    pattern: Regex,
    /// Where the groups of a match are; used again and again.
    places: CaptureLocations,
    /// A column, and the number of its group.
    columns: Vec<(usize, Column)>,
    reader: ColumnReader,
    /// What requests are without a group that says it.
    kind: Kind,
    skip_unmatched: bool,
}

impl Parser {
    fn of(options: &ReadOptions) -> Result<Self, Error> {
        let wrong = |wanted: String| Error::Option { name: "pattern", value: format!("`{}`", options.pattern), wanted };
        if options.pattern.is_empty() {
            let wanted = "--pattern with the groups of time, kind, offset and length, such as (?P<time_s>[0-9.]+)";
            return Err(Error::Option { name: "pattern", value: "absent".into(), wanted: wanted.into() });
        }
        csv::check_units(&options.csv)?;
        let built = RegexBuilder::new(&options.pattern).unicode(false).size_limit(MOST_PATTERN_BYTES).build();
        let pattern = built.map_err(|error| wrong(format!("a regular expression ({error})")))?;
        let groups = pattern.capture_names().enumerate().filter_map(|(group, name)| Some((group, name?)));
        let (numbers, names): (Vec<usize>, Vec<&str>) = groups.unzip();
        let columns = csv::columns(names.iter().map(|name| name.as_bytes()), &options.csv);
        let columns = columns.map_err(|fault| wrong(fault.to_string()))?;
        if let Some(place) = columns.iter().position(|column| matches!(column, Column::Ignored)) {
            return Err(wrong(format!("groups named as columns of csv, and `{}` is none", names[place])));
        }
        Ok(Self {
            places: pattern.capture_locations(),
            pattern,
            columns: numbers.into_iter().zip(columns).collect(),
            reader: ColumnReader::default(),
            kind: csv::kind_without_column(&options.csv),
            skip_unmatched: options.skip_unmatched,
        })
    }
}

impl LineParser for Parser {
    fn parse(&mut self, line: Line<'_>) -> Result<Option<Request>, Fault> {
        if self.pattern.captures_read(&mut self.places, &line).is_none() {
            let unmatched = || Fault::form(&line, "as --pattern says (--skip-unmatched leaves such lines out)");
            return if self.skip_unmatched { Ok(None) } else { Err(unmatched()) };
        }
        let mut request = Request { kind: self.kind, ..Request::default() };
        for (group, column) in &self.columns {
            match self.places.get(*group) {
                Some((from, to)) => {
                    // No line has a NUL: all of the group is one field.
                    let mut fields = Fields::<0>::new(line.within(from, to));
                    self.reader.read(column, &mut fields, &mut request)?;
                }
                // A flush has no range, and a trace may have one device.
                None if matches!(column, Column::Offset { .. } | Column::Length { .. } | Column::Device(_)) => {}
                None => return Err(Fault::form(&line, "a line with a time and a kind as --pattern says")),
            }
        }
        Ok(Some(without_range_of_flush(request)))
    }
}
