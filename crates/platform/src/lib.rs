//! The machine under Loginson, as small traits with a real and a simulated form.

mod clock;

pub use clock::{Clock, ManualClock, RealClock};
