//! The integration tests: one binary, one story a file, over the real wire and on a real Postgres.

mod accept;
mod access;
mod backtest;
mod bombs;
mod budget;
mod catch_up;
mod chaos;
mod cli;
mod config;
mod dashboard;
mod deploy;
mod follow;
mod front;
mod house;
mod judge;
mod llm;
mod modes;
mod openapi;
mod operate;
mod postgres;
mod provider;
mod real_model;
mod retention;
mod succession;
mod support;
mod verdict;
