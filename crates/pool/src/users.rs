//! [`Users`]: a pool's size is the sum of what its users need, each by name.

/// Who uses a pool, and how many objects each needs at most at once.
///
/// ```
/// use plimsoll_pool::{Pool, Users};
///
/// let users = Users::of("request contexts").user("waiting", 512).user("running", 16).user("leaving", 4);
/// users.assert_sum(532);
/// let contexts = Pool::sized(&users, Vec::<u8>::new);
/// assert_eq!(contexts.counts().capacity, 532);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Users {
    pool: &'static str,
    users: Vec<(&'static str, usize)>,
}

impl Users {
    /// The users of the pool of this name: none yet.
    pub fn of(pool: &'static str) -> Self {
        Self { pool, users: Vec::new() }
    }

    /// One more user, who needs at most `objects` at once.
    ///
    /// # Panics
    /// When there is a user of that name already: two that share a name would be counted as one by whoever reads it.
    #[must_use]
    pub fn user(mut self, name: &'static str, objects: usize) -> Self {
        let is_new = self.users.iter().all(|(other, _)| *other != name);
        assert!(is_new, "{} has two users called {name}", self.pool);
        self.users.push((name, objects));
        self
    }

    /// The name of the pool.
    pub fn pool(&self) -> &'static str {
        self.pool
    }

    /// The users, in the order in which they were named.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.users.iter().copied()
    }

    /// What all of them need together.
    ///
    /// # Panics
    /// When there are none, or the sum is more than a `usize` holds.
    pub fn sum(&self) -> usize {
        assert!(!self.users.is_empty(), "{} has no users", self.pool);
        let sum = self.users.iter().try_fold(0_usize, |sum, (_, objects)| sum.checked_add(*objects));
        sum.unwrap_or_else(|| panic!("{self} are more than can be counted"))
    }

    /// Checks a size that was worked out somewhere else.
    ///
    /// # Panics
    /// When it is not the sum: says who needs how many.
    pub fn assert_sum(&self, size: usize) {
        assert!(self.sum() == size, "{self} are {}, not {size}", self.sum());
    }
}

impl std::fmt::Display for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:", self.pool)?;
        for (at, (name, objects)) in self.users.iter().enumerate() {
            write!(f, "{} {objects} {name}", if at == 0 { "" } else { " +" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panics(work: impl FnOnce() + std::panic::UnwindSafe) -> String {
        let panic = std::panic::catch_unwind(work).expect_err("it must panic");
        panic.downcast_ref::<String>().cloned().expect("a message with values")
    }

    #[test]
    fn the_sum_is_asserted_by_name() {
        let users = Users::of("frames").user("streams", 16).user("bodies", 4);
        users.assert_sum(20);
        assert_eq!(users.sum(), 20);
        assert_eq!(panics(|| users.assert_sum(21)), "frames: 16 streams + 4 bodies are 20, not 21");
    }

    #[test]
    fn what_cannot_be_summed_is_refused() {
        assert_eq!(panics(|| Users::of("a").assert_sum(0)), "a has no users");
        let twice = || drop(Users::of("a").user("b", 1).user("b", 2));
        assert_eq!(panics(twice), "a has two users called b");
        let huge = Users::of("a").user("b", usize::MAX).user("c", 1);
        assert!(panics(move || huge.assert_sum(0)).ends_with("are more than can be counted"));
    }
}
