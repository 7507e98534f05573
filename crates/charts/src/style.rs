//! Colours, for light and dark.

/// Colours of series; they repeat. Told apart also by who sees red and green alike (after Okabe and Ito).
pub(crate) const COLOURS: usize = 8;

/// What every chart carries. `currentColor` follows the page.
pub(crate) const CSS: &str = "\
.plimsoll-chart{--ink:#24292f;--faint:#d8dee4;--limit:#cf222e;--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#a05195;\
--c4:#56b4e9;--c5:#b58900;--c6:#e377c2;--c7:#6e7781;font:12px system-ui,sans-serif;width:100%;max-width:60rem;height:auto}\
@media(prefers-color-scheme:dark){.plimsoll-chart{--ink:#c9d1d9;--faint:#30363d;--limit:#ff7b72;--c0:#58a6ff;--c1:#f0883e;\
--c2:#3fb950;--c3:#d2a8ff;--c4:#79c0ff;--c5:#e3b341;--c6:#f778ba;--c7:#8b949e}}\
.plimsoll-chart text{fill:var(--ink)}\
.plimsoll-chart .title{font-weight:600;font-size:14px}\
.plimsoll-chart .grid{stroke:var(--faint);stroke-width:1}\
.plimsoll-chart .line{fill:none;stroke-width:1.8;stroke-linejoin:round}\
.plimsoll-chart .limit{stroke:var(--limit);stroke-width:1.5;stroke-dasharray:6 4}\
.plimsoll-chart .limit-name{fill:var(--limit)}\
.plimsoll-chart .bar{fill-opacity:.75}\
.plimsoll-chart .dot{fill-opacity:.6}";

/// The style of series `i`, as `stroke` or `fill`.
pub(crate) fn colour(property: &str, i: usize) -> String {
    format!("{property}:var(--c{})", i % COLOURS)
}
