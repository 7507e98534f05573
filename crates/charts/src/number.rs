//! Numbers as people write them.

const LARGE: [(f64, &str); 3] = [(1e9, "G"), (1e6, "M"), (1e3, "k")];

/// A number in at most four or so digits: `0.025`, `7`, `1234`, `12.3k`, `4.5e15`.
pub fn short(value: f64) -> String {
    // Nobody writes -0; a sum of nothing is that.
    let value = value + 0.0;
    let size = value.abs();
    if !value.is_finite() {
        return "–".to_owned();
    }
    if size != 0.0 && !(1e-4..1e12).contains(&size) {
        return format!("{value:.1e}").replace(".0e", "e");
    }
    if size >= 9999.5 {
        return large(value, 1);
    }
    let decimals = match size {
        _ if size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 || size == 0.0 => 2,
        _ => (2.0 - size.log10().floor()) as usize,
    };
    trimmed(format!("{value:.decimals$}"))
}

/// A multiple of `step`, with the decimals that tell it from the next one.
pub(crate) fn stepped(value: f64, step: f64) -> String {
    let value = if value.abs() < step * 0.5 { 0.0 } else { value };
    if value.abs() >= 1e12 || step < 1e-4 {
        return if value == 0.0 { "0".to_owned() } else { format!("{value:.3e}").replace(".000e", "e") };
    }
    if value.abs() >= 9999.5 && step >= 100.0 {
        return large(value, if step >= 1000.0 { 3 } else { 1 });
    }
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    format!("{value:.decimals$}")
}

fn large(value: f64, decimals: usize) -> String {
    let unit = LARGE.iter().find(|(size, _)| value.abs() >= size * 0.99995);
    let (size, letter) = unit.copied().unwrap_or((1.0, ""));
    trimmed(format!("{:.decimals$}", value / size)) + letter
}

/// Without zeros that say nothing behind the point.
fn trimmed(text: String) -> String {
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (0.025, "0.025"),
            (7.0, "7"),
            (1.256, "1.26"),
            (59.94, "59.9"),
            (1234.4, "1234"),
            (12_345.0, "12.3k"),
            (2_000_000.0, "2M"),
            (4.5e15, "4.5e15"),
            (-0.5, "-0.5"),
            (f64::NAN, "–"),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn steps_tell_neighbours_apart() {
        let cases = [
            (0.30000000000000004, 0.1, "0.3"),
            (20_000.0, 10_000.0, "20k"),
            (12_500.0, 500.0, "12.5k"),
            (-1e-17, 0.5, "0.0"),
        ];
        for (value, step, text) in cases {
            assert_eq!(stepped(value, step), text);
        }
    }
}
