//! Replays of real exports, and exports made for one case each.

mod captures;
mod dialects;
mod hostile;
mod logs;
mod mutations;
mod order;
mod replay;
mod shapes;
mod synthetic;
