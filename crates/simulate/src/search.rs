//! How many replicas hold the promise.

use crate::summary::Summary;

/// What was tried, by the number of replicas, and the fewest that hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Search {
    /// One for each number tried, rising.
    pub tried: Vec<Summary>,
    /// The fewest that hold; `None`: not even the most allowed do.
    pub holds: Option<usize>,
}

/// Doubles from one replica until the promise holds or `most` do not hold it, then bisects. `run` says what so many replicas
/// make of the load; that more of them never make less of it is taken for granted.
///
/// # Errors
/// What `run` fails with.
pub fn search<E>(
    quantile: f64,
    most: usize,
    mut run: impl FnMut(usize) -> Result<Summary, E>,
) -> Result<Search, E> {
    let mut found = Search::default();
    let mut attempt = |replicas: usize, found: &mut Search| {
        let summary = run(replicas)?;
        let holds = summary.holds(quantile);
        let at = found.tried.partition_point(|tried| tried.replicas < replicas);
        found.tried.insert(at, Summary { replicas, ..summary });
        Ok(holds)
    };
    let (mut fails, mut next) = (0, 1);
    let mut holds = loop {
        if attempt(next, &mut found)? {
            break next;
        }
        if next >= most {
            return Ok(found);
        }
        (fails, next) = (next, (next * 2).min(most));
    };
    while holds - fails > 1 {
        let middle = usize::midpoint(fails, holds);
        if attempt(middle, &mut found)? {
            holds = middle;
        } else {
            fails = middle;
        }
    }
    found.holds = Some(holds);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn the_fewest_are_found() {
        for (needed, most, expected) in [
            (1, 64, Some(1)),
            (2, 64, Some(2)),
            (11, 64, Some(11)),
            (64, 64, Some(64)),
            (65, 64, None),
            (5, 5, Some(5)),
        ] {
            let run = |replicas| {
                let in_promise = if replicas >= needed { 100 } else { 50 };
                Ok::<_, Infallible>(Summary { offered: 100, in_promise, ..Summary::default() })
            };
            let Ok(found) = search(0.99, most, run);
            assert_eq!(found.holds, expected, "{needed} of {most}");
            assert!(found.tried.is_sorted_by(|a, b| a.replicas < b.replicas), "{found:?}");
            assert!(found.tried.len() <= 14);
        }
    }
}
