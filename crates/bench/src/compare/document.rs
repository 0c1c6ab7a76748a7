//! The comparison as a document: a table, and a plot of each figure as SVG, to be read on light and on dark paper.

use std::fmt::{Display, Write as _};
use std::fs;
use std::path::Path;

use asat_core::Problem;
use plotters::prelude::{
    Color as _, DrawingArea, IntoDrawingArea as _, IntoFont as _, RGBColor, Rectangle, SVGBackend, Text,
    TextStyle,
};

use super::{Compared, Figures, Missing, PeerFigures};
use crate::failed;
use crate::report::{mb, number};
use crate::setting::Setting;
use crate::statistics::float;

/// A plot's width, and what one bar takes of its height, in pixels.
const WIDTH: i32 = 720;
const BAR: i32 = 26;
/// Where the bars begin, and how long the longest one is.
const LEFT: i32 = 150;
const LONGEST: f64 = 430.0;
/// Grey that is read on white and on black.
const INK: RGBColor = RGBColor(125, 133, 144);
const OURS: RGBColor = RGBColor(15, 138, 126);
const OTHERS: RGBColor = RGBColor(150, 160, 172);

/// A figure of each peer.
struct Measure {
    file: &'static str,
    title: &'static str,
    of: fn(&PeerFigures) -> f64,
    said: fn(&PeerFigures) -> String,
}

const MEASURES: [Measure; 6] = [
    Measure {
        file: "kept",
        title: "Bytes kept for all moments",
        of: |peer| float(peer.kept_bytes),
        said: |peer| mb(peer.kept_bytes),
    },
    Measure {
        file: "kept-after",
        title: "Until a moment is kept, median",
        of: |peer| peer.kept_after_ms.median,
        said: |peer| format!("{} ms", number(peer.kept_after_ms.median)),
    },
    Measure {
        file: "first-answer",
        title: "From asking for an old moment to the first answer, median",
        of: |peer| peer.first_answer_ms.median,
        said: |peer| format!("{} ms", number(peer.first_answer_ms.median)),
    },
    Measure {
        file: "writer",
        title: "The writer's time, to a store of which nothing is kept",
        of: |peer| peer.writer.median,
        said: |peer| number(peer.writer.median),
    },
    Measure {
        file: "processor",
        title: "Processor time for each moment",
        of: |peer| peer.processor_ms_each,
        said: |peer| format!("{} ms", number(peer.processor_ms_each)),
    },
    Measure {
        file: "memory",
        title: "Memory, at most",
        of: |peer| float(peer.peak_bytes),
        said: |peer| mb(peer.peak_bytes),
    },
];

/// Writes `compare.md` and a folder with the plots.
pub(super) fn write(folder: &Path, figures: &Figures, setting: &Setting) -> Result<(), Problem> {
    let plots = folder.join("compare");
    let cannot = |error: std::io::Error| failed(&format!("write into {}", folder.display()), error);
    fs::create_dir_all(&plots).map_err(cannot)?;
    for measure in &MEASURES {
        let svg = plot(measure, &figures.here.peers).map_err(|error| failed("draw a plot", error))?;
        fs::write(plots.join(format!("{}.svg", measure.file)), svg).map_err(cannot)?;
    }
    fs::write(folder.join("compare.md"), text(figures, setting)).map_err(cannot)
}

fn text(figures: &Figures, setting: &Setting) -> String {
    let mut text = format!(
        "# asat beside others\n\n\
         The same work in one run: {} transactions of {} inserts and as many updates (WAL, `synchronous=FULL`, {} in the end). Each is done on a store of every peer in\n\
         turns, and after each of them the moment is kept. Then five of the moments are opened, and compared with what they were. `make compare` repeats it and writes this page.\n\n\
         ```text\n{}\n```\n\n",
        figures.publications,
        figures.rows,
        mb(figures.here.store_bytes),
        setting.text()
    );
    table(&mut text, &figures.here);
    text.push_str(
        "\n*Kept after*: until the command or the request is answered. *First answer*: from asking for an old moment until a look-up over it is answered, with the time to restore it.\n\
         *Writer*: its time for the transaction, to the same on a store of which nothing is kept, median of all rounds. *Processor*: for each moment, of commands and of processes that stay. All but the bytes are medians.\n\n",
    );
    for measure in &MEASURES {
        let _ = writeln!(text, "![{}](compare/{}.svg)\n", measure.title, measure.file);
    }
    commands(&mut text, &figures.here);
    for compared in &figures.sharing {
        let Compared { file_system, peers, .. } = compared;
        let _ = write!(text, "\n## On {file_system}\n\n");
        if !peers.is_empty() {
            text.push_str(
                "The same on a file system whose files can share blocks: a shared block counts once.\n\n",
            );
            table(&mut text, compared);
            text.push('\n');
        }
        commands(&mut text, compared);
    }
    text
}

fn table(text: &mut String, Compared { peers, .. }: &Compared) {
    let row = |text: &mut String, cells: &[&dyn Display]| {
        for cell in cells {
            // Writing to a text cannot fail.
            let _ = write!(text, "| {cell} ");
        }
        text.push_str("|\n");
    };
    let heads: [&dyn Display; 7] =
        [&"", &"kept", &"kept after", &"first answer", &"writer", &"processor", &"memory"];
    row(text, &heads);
    text.push_str("|---|---|---|---|---|---|---|\n");
    for peer in peers {
        let cells: Vec<String> = MEASURES.iter().map(|measure| (measure.said)(peer)).collect();
        let mut all: Vec<&dyn Display> = vec![&peer.name];
        all.extend(cells.iter().map(|cell| cell as &dyn Display));
        row(text, &all);
    }
}

/// What was run, and who is not here.
fn commands(text: &mut String, Compared { peers, missing, .. }: &Compared) {
    if !peers.is_empty() {
        text.push_str("What was run:\n\n");
    }
    for PeerFigures { name, version, command, .. } in peers {
        let _ = writeln!(text, "- {name}: `{command}` ({version})");
    }
    if !missing.is_empty() {
        text.push_str("\nNot measured here:\n\n");
    }
    for Missing { name, why } in missing {
        let _ = writeln!(text, "- {name}: {why}");
    }
}

/// Bars, one below the other.
fn plot(measure: &Measure, peers: &[PeerFigures]) -> Result<String, Box<dyn std::error::Error>> {
    let rows = i32::try_from(peers.len())?;
    let height = u32::try_from(BAR * (rows + 2))?;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (u32::try_from(WIDTH)?, height)).into_drawing_area();
        write_text(&area, measure.title, 14, (8, 8))?;
        let most = peers.iter().map(measure.of).fold(f64::MIN_POSITIVE, f64::max);
        for (nth, peer) in (0..).zip(peers) {
            let top = BAR * (nth + 1) + 12;
            let color = if nth == 0 { OURS } else { OTHERS };
            let end = LEFT + length((measure.of)(peer) / most);
            area.draw(&Rectangle::new([(LEFT, top), (end, top + BAR - 8)], color.filled()))?;
            write_text(&area, &peer.name, 12, (8, top + 2))?;
            write_text(&area, &(measure.said)(peer), 12, (end + 8, top + 2))?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// How long the bar of a share of the longest one is.
#[expect(clippy::cast_possible_truncation, reason = "it is below a thousand")]
fn length(share: f64) -> i32 {
    (share.clamp(0.0, 1.0) * LONGEST).round().max(1.0) as i32
}

fn write_text(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    text: &str,
    size: i32,
    at: (i32, i32),
) -> Result<(), Box<dyn std::error::Error>> {
    let style: TextStyle<'_> = ("sans-serif", size).into_font().color(&INK.mix(1.0));
    area.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}
