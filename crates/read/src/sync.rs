//! The mutex of this crate: in its unit tests it can be shuttle's, which controls the schedules of
//! threads.

#[cfg(not(test))]
pub(crate) use hither_core::sync::lock;
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(test)]
pub(crate) use schedules::{Mutex, MutexGuard};

/// Locks a mutex, poisoned or not.
#[cfg(test)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A mutex that is shuttle's where it is made inside [`explore`], and the standard one elsewhere.
#[cfg(test)]
pub(crate) mod schedules {
    use std::cell::Cell;
    use std::ops::{Deref, DerefMut};
    use std::sync::{Arc, LockResult, PoisonError};

    thread_local! {
        /// True inside [`explore`], whose threads all run on the one that calls it.
        static EXPLORING: Cell<bool> = const { Cell::new(false) };
    }

    #[derive(Debug)]
    pub(crate) enum Mutex<T> {
        Standard(std::sync::Mutex<T>),
        Scheduled(shuttle::sync::Mutex<T>),
    }

    #[derive(Debug)]
    pub(crate) enum MutexGuard<'a, T> {
        Standard(std::sync::MutexGuard<'a, T>),
        Scheduled(shuttle::sync::MutexGuard<'a, T>),
    }

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            if EXPLORING.get() {
                Self::Scheduled(shuttle::sync::Mutex::new(value))
            } else {
                Self::Standard(std::sync::Mutex::new(value))
            }
        }

        pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
            match self {
                Self::Standard(mutex) => wrap(mutex.lock(), MutexGuard::Standard),
                Self::Scheduled(mutex) => wrap(mutex.lock(), MutexGuard::Scheduled),
            }
        }
    }

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Self::new(T::default())
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            match self {
                Self::Standard(guard) => guard,
                Self::Scheduled(guard) => guard,
            }
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            match self {
                Self::Standard(guard) => guard,
                Self::Scheduled(guard) => guard,
            }
        }
    }

    fn wrap<G, H>(locked: LockResult<G>, kind: impl Fn(G) -> H) -> LockResult<H> {
        match locked {
            Ok(guard) => Ok(kind(guard)),
            Err(poisoned) => Err(PoisonError::new(kind(poisoned.into_inner()))),
        }
    }

    /// Runs `act` in `count` random schedules of its threads, and in as many chosen by PCT, which
    /// finds rare orders of few steps.
    pub(crate) fn explore(count: usize, act: impl Fn() + Send + Sync + 'static) {
        let random = Arc::new(act);
        let ordered = Arc::clone(&random);
        EXPLORING.set(true);
        shuttle::check_random(move || random(), count);
        shuttle::check_pct(move || ordered(), count, 3);
        EXPLORING.set(false);
    }
}
