//! Reading ahead, by simulation: patterns against the best plan, the job of 2006, hostile programs.

mod babar;
mod engine;
mod hostile;
mod patterns;
mod prefetch_model;
