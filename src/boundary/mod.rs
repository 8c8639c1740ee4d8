//! The boundary around tools: what a call does to the world, whether it may run, and what is answered in its place. Pure;
//! `pipeline` reads the state that it is given and stores what follows.

pub mod effects;
