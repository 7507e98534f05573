//! No more points than the paper can show. What stands out is kept: a peak of one request must not vanish.

/// Places on paper, in its units.
pub(crate) type Place = (f64, f64);

/// A line with at most four points per unit of width: of each column the first, the least, the greatest and the last. Points
/// must come from left to right; a line that does not is left as it is.
pub(crate) fn line(points: &[Place]) -> Vec<Place> {
    let runs_right = points.windows(2).all(|pair| pair[0].0 <= pair[1].0);
    if !runs_right {
        return points.to_vec();
    }
    let columns = points.chunk_by(|a, b| a.0.floor() == b.0.floor());
    columns.flat_map(column).collect()
}

fn column(points: &[Place]) -> Vec<Place> {
    let by_y = |a: &&Place, b: &&Place| a.1.total_cmp(&b.1);
    let index_of =
        |place: Option<&Place>| place.and_then(|place| points.iter().position(|other| other == place));
    let ends = [
        Some(0),
        index_of(points.iter().min_by(by_y)),
        index_of(points.iter().max_by(by_y)),
        Some(points.len() - 1),
    ];
    let mut kept: Vec<usize> = ends.into_iter().flatten().collect();
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|i| points[i]).collect()
}

/// Points without those that would lie on another, to half a unit.
pub(crate) fn dots(points: &[Place]) -> Vec<Place> {
    let cell = |place: &Place| ((place.0 * 2.0) as i64, (place.1 * 2.0) as i64);
    let mut seen = std::collections::HashSet::new();
    points.iter().filter(|place| seen.insert(cell(place))).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_kept() {
        let mut points: Vec<Place> = (0..10_000).map(|i| (f64::from(i) / 100.0, 10.0)).collect();
        points[5_050].1 = 99.0;
        let thin = line(&points);
        assert!(thin.len() <= 400, "{}", thin.len());
        assert!(thin.contains(&(50.5, 99.0)));
    }

    #[test]
    fn a_line_that_turns_back_is_left_as_it_is() {
        let points = [(0.1, 0.0), (0.3, 1.0), (0.2, 2.0), (0.25, 3.0), (0.21, 4.0)];
        assert_eq!(line(&points), points);
    }

    #[test]
    fn dots_on_dots_are_one() {
        assert_eq!(dots(&[(1.0, 1.0), (1.1, 1.1), (2.0, 1.0)]), [(1.0, 1.0), (2.0, 1.0)]);
    }
}
