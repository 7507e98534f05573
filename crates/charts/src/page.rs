//! A page that charts stand on: HTML that needs nothing else, in the reader's light or dark scheme.

use crate::chart::Chart;
use crate::xml::escape;
use std::fmt::{Arguments, Write};

const STYLE: &str = "\
:root{color-scheme:light dark;--page:#fff;--ink:#24292f;--faint:#d8dee4;--soft:#57606a}\
@media(prefers-color-scheme:dark){:root{--page:#0d1117;--ink:#c9d1d9;--faint:#30363d;--soft:#8b949e}}\
body{background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif;max-width:66rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}\
th,td{padding:.2rem .75rem;border-bottom:1px solid var(--faint);text-align:right}\
th:first-child,td:first-child{text-align:left}\
h2{margin-top:2.5rem}.soft{color:var(--soft)}.headline{font-size:1.25rem}svg{display:block;margin:1.2rem 0}";

/// A page that is being written. Its classes are `headline` and `soft`.
#[derive(Debug)]
pub struct Page {
    html: String,
}

impl Page {
    /// A page with this title and nothing below it.
    pub fn new(title: &str) -> Self {
        let mut page =
            Self { html: String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">") };
        let title = escape(title);
        page.put(format_args!("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"));
        page.put(format_args!("<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>"));
        page
    }

    /// Adds HTML as it is: what may be anything is to be escaped before.
    pub fn put(&mut self, html: Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.html.write_fmt(html);
    }

    /// Adds a row of cells to a table, whatever they say.
    pub fn row(&mut self, cells: &[impl AsRef<str>]) {
        self.cells("td", cells);
    }

    /// Adds a row of headings to a table.
    pub fn head(&mut self, cells: &[impl AsRef<str>]) {
        self.cells("th", cells);
    }

    fn cells(&mut self, name: &str, cells: &[impl AsRef<str>]) {
        self.put(format_args!("<tr>"));
        cells.iter().for_each(|cell| self.put(format_args!("<{name}>{}</{name}>", escape(cell.as_ref()))));
        self.put(format_args!("</tr>"));
    }

    /// Adds charts.
    pub fn charts(&mut self, charts: &[Chart]) {
        charts.iter().for_each(|chart| self.html.push_str(&chart.svg()));
    }

    /// All of it.
    pub fn end(mut self) -> String {
        self.html.push_str("</body></html>\n");
        self.html
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Axis;

    #[test]
    fn a_page_is_whole_and_nothing_gets_out_of_its_cell() {
        let mut page = Page::new("<a> & b");
        page.put(format_args!("<table>"));
        page.head(&["name", "<th>"]);
        page.row(&["x".to_owned(), "</td>".to_owned()]);
        page.put(format_args!("</table>"));
        page.charts(&[Chart::new("c", Axis::new("x"), Axis::new("y"))]);
        let html = page.end();
        assert!(
            html.starts_with("<!doctype html>\n<html lang=\"en\"><head>")
                && html.ends_with("</svg></body></html>\n")
        );
        for part in [
            "<title>&lt;a&gt; &amp; b</title>",
            "<h1>&lt;a&gt; &amp; b</h1>",
            "<tr><th>name</th><th>&lt;th&gt;</th></tr><tr><td>x</td><td>&lt;/td&gt;</td></tr>",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
    }
}
