//! The integration tests: one binary, one story a file, over the real wire and on a real Postgres.

mod accept;
mod access;
mod batch;
mod bombs;
mod budget;
mod chaos;
mod cli;
mod config;
mod dashboard;
mod front;
mod house;
mod judge;
mod llm;
mod modes;
mod openapi;
mod operate;
mod postgres;
mod real_model;
mod succession;
mod support;
mod trajectory;
mod verdict;
