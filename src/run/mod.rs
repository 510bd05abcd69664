//! Run: starts, adds and removes workloads in a shield.
