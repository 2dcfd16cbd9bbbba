//! A path that other flows share: additive increase, multiplicative decrease (AIMD).
//!
//! Each transfer on a full path closes a fifth of its connections when it sees the queue, and adds
//! about the same small number while it sees none. So larger transfers lose more than smaller ones,
//! until all have the same share. A search for the highest rate would not converge to that: a
//! transfer with more connections gets more of the path.

use super::TunerLimits;

/// Factor on the setting when packets queue.
const DECREASE: f64 = 0.8;
/// The growth per interval without a queue: a constant, and a share of the setting, without which
/// growth at large settings took minutes.
const INCREASE: f64 = 0.25;
const INCREASE_SHARE: f64 = 0.02;
/// The number of intervals without a queue after which the growth rises by as much again: the
/// longer there is no queue, the likelier it is that a flow has ended or the capacity has grown.
const FASTER_AFTER: f64 = 8.0;
/// Intervals without a queue after which the path counts as free.
const FREE_INTERVALS: u32 = 32;

#[derive(Debug, Clone)]
pub(super) struct SharedPath {
    weight: f64,
    /// The number of intervals in which a decrease takes effect.
    skips: u32,
    free: u32,
    /// State of a linear congruential generator. Without randomness, transfers that react at the
    /// same instants would not converge to equal shares.
    random: u64,
}

impl SharedPath {
    /// The setting with which sharing starts.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "small numbers; the cast saturates"
    )]
    pub(super) fn first_setting(setting: usize, min: usize) -> usize {
        ((setting as f64 * DECREASE) as usize).max(min).max(1)
    }

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    pub(super) fn new(setting: usize) -> Self {
        Self { weight: setting as f64, skips: 1, free: 0, random: setting as u64 }
    }

    /// A number from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "32 bits")]
    fn random(&mut self) -> f64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 32) as f64 / f64::from(u32::MAX)
    }

    /// Returns true if no packets have queued for a long time.
    pub(super) fn is_free(&self) -> bool {
        self.free >= FREE_INTERVALS
    }

    /// The setting after an interval.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "small numbers; the cast saturates"
    )]
    pub(super) fn end_interval(&mut self, is_queued: bool, limits: TunerLimits) -> usize {
        let random = self.random();
        self.free = if is_queued { 0 } else { self.free + 1 };
        if self.skips > 0 {
            self.skips -= 1;
        } else if is_queued {
            self.weight *= DECREASE;
            self.skips = if random < 0.5 { 1 } else { 2 };
        } else {
            let growth = INCREASE + INCREASE_SHARE * self.weight;
            self.weight += growth * (1.0 + f64::from(self.free) / FASTER_AFTER) * (0.5 + random);
        }
        self.weight = self.weight.clamp(limits.min as f64, limits.max as f64);
        (self.weight.ceil() as usize).clamp(limits.min, limits.max)
    }
}
