//! Lanes: the threads that drive an engine by the scheduler's plans, behind the service trait.
