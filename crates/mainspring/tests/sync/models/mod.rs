//! Each primitive against a naive model: lists in the order people came, and a set of those whose turn it is.
//!
//! Futures are polled by hand, also when nobody woke them, handed to other tasks, and given up in every state. After every
//! step the woken ones must be those whose turn it is: nobody is forgotten, and nobody is woken for nothing.

mod barrier;
mod condition;
mod flags;
mod permits;
mod queue;
