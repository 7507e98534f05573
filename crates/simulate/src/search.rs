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

/// Doubles from one replica until the promise holds, `most` do not hold it or more do not help, then bisects. `run` says what so
/// many replicas make of the load; that more of them never make less of it is taken for granted.
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
        if next >= most || is_vain(&found.tried) {
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

/// Whether the last doubling changed nothing, with nobody refused whom more replicas have room or time for: what misses the
/// promise does so by itself.
pub(crate) fn is_vain(tried: &[Summary]) -> bool {
    let [.., before, last] = tried else { return false };
    let is_full = last.refused_full != before.refused_full;
    last.in_promise <= before.in_promise && before.refused_late == 0 && !is_full
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
                let refused_late = 100 - in_promise;
                Ok::<_, Infallible>(Summary { offered: 100, in_promise, refused_late, ..Summary::default() })
            };
            let Ok(found) = search(0.99, most, run);
            assert_eq!(found.holds, expected, "{needed} of {most}");
            assert!(found.tried.is_sorted_by(|a, b| a.replicas < b.replicas), "{found:?}");
            assert!(found.tried.len() <= 14);
        }
    }

    #[test]
    fn what_more_cannot_help_is_not_tried_for_ever() {
        let all = Summary { offered: 100, in_promise: 80, ..Summary::default() };
        for missed in [
            Summary { late: 20, ..all.clone() },
            // Longer than the context; and late on an idle server.
            Summary { refused_full: 20, ..all.clone() },
            Summary { refused_never: 20, ..all.clone() },
        ] {
            let Ok(found) = search(0.99, 1024, |_| Ok::<_, Infallible>(missed.clone()));
            assert_eq!((found.holds, found.tried.len()), (None, 2), "{missed:?}");
        }
        let late = Summary { refused_late: 20, ..all.clone() };
        let Ok(found) = search(0.99, 1024, |_| Ok::<_, Infallible>(late.clone()));
        assert_eq!(found.tried.len(), 11, "as many as are allowed");
        let full = |replicas: usize| {
            let refused_full = if replicas >= 8 { 0 } else { 20 + 8 / replicas };
            Ok::<_, Infallible>(Summary {
                in_promise: 80_usize.max(100 - refused_full),
                refused_full,
                ..all.clone()
            })
        };
        let Ok(found) = search(0.99, 1024, full);
        assert_eq!(found.holds, Some(8));
    }
}
